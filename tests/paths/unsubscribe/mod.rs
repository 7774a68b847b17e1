//! The recipient's own door: a link that ends one kind of mail for one person, and nothing else.

use sealpost::operate::{Answer, Request, answer};
use sealpost::outbox::unsubscribe::token;
use serde_json::{Value as Json, json};

use crate::support::{TestWorld, notice_with_key, text};

mod door;
mod mails;
mod rows;

const ASK: &str = "<h1>Stop these mails?</h1>";
const DONE: &str = "You will get no more mails of this kind.</p>\n<p class=";

fn announcement(reference: &str, to: &str) -> Json {
    json!({
        "family": "announcement",
        "key": { "reference": reference },
        "to": { "email": format!("{to}@example.com"), "name": "Ada" },
        "content": { "subject": format!("News {reference}"), "text": "Good news." },
    })
}

fn notice(key: &str, to: &str) -> Json {
    let mut notice = notice_with_key(key);
    notice["to"]["email"] = format!("{to}@example.com").into();
    notice
}

async fn record(world: &TestWorld, intents: &[Json]) -> Vec<String> {
    let accepted = world.intake(intents).await.expect("recorded");
    // Announcements are bulk: the relay admits them.
    world.tick().await;
    accepted.receipts.into_iter().map(|receipt| receipt.id).collect()
}

/// The path of the link in the mail that went out last.
fn link(world: &TestWorld) -> String {
    let model = world.mailer.model.borrow();
    let headers = &model.ledger().sent().back().expect("a mail went out").mail.headers;
    assert_eq!(headers["List-Unsubscribe-Post"], "List-Unsubscribe=One-Click");
    let link = &headers["List-Unsubscribe"];
    let path = link.strip_prefix("<https://mail.example.com").expect("where we are");
    path.strip_suffix('>').expect("one address").to_owned()
}

/// The path of a row's link.
fn link_of(world: &TestWorld, id: &str) -> String {
    format!("/v1/unsubscribe/{}", token(&world.config.recipient_secret, id))
}

async fn ask(world: &TestWorld, method: &str, path: &str) -> Answer {
    let request = Request {
        method,
        path,
        content_type: Some("application/x-www-form-urlencoded"),
        body: Some(b"List-Unsubscribe=One-Click"),
        ..Request::default()
    };
    answer(world, &world.config, &request).await
}

pub(crate) async fn click(world: &TestWorld, id: &str) {
    let answer = ask(world, "POST", &link_of(world, id)).await;
    assert_eq!(answer.status, 200);
    assert!(page(&answer).contains(DONE), "{}", page(&answer));
}

fn page(answer: &Answer) -> &str {
    answer.page.as_deref().expect("a page")
}

/// Everything that a click could change, as one text.
async fn all(world: &TestWorld) -> String {
    let rows = world
        .sql(
            "SELECT (SELECT group_concat(id || status || cause || updated_at || coalesce(relay_at, 0)) FROM outbox)
               || (SELECT count(*) FROM suppressions) || '/' || (SELECT count(*) FROM suppression_history)
               || '/' || (SELECT count(*) FROM events)",
            vec![],
        )
        .await;
    text(&rows[0][0])
}

/// Reason, lifting, end and source of the suppressions that there are, by family.
async fn suppressions(world: &TestWorld) -> Vec<String> {
    let rows = world
        .sql(
            "SELECT family || ' ' || reason || coalesce(' lifted ' || lifted_at, '') || coalesce(' until ' || until, '')
             FROM suppressions ORDER BY recipient_hash, family",
            vec![],
        )
        .await;
    rows.iter().map(|row| text(&row[0])).collect()
}

fn owned(status: &str, cause: &str) -> (String, String) {
    (status.to_owned(), cause.to_owned())
}

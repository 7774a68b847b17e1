//! `/v1/unsubscribe/{token}`: the recipient's own door. The token is the proof: no cookie, no sign-in, no redirect.
//!
//! Looking changes nothing, because scanners open every link of a mail. Posting does it, whatever is posted: a mail
//! program sends `List-Unsubscribe=One-Click` as a form of either kind (RFC 8058, section 3.2), the page an empty one.

use super::failure::database_failed;
use super::http::{Answer, Request};
use crate::config::Config;
use crate::outbox::unsubscribe::verify;
use crate::ports::{Clock as _, Field, Level, Log as _, World};
use crate::store::unsubscribe::unsubscribe;

/// Answers a recipient, or a mail program in their name. Every answer is a page that names nobody.
pub(super) async fn answer<W: World>(world: &W, config: &Config, request: &Request<'_>, token: &str) -> Answer {
    let Some(outbox_id) = verify(&config.recipient_secret, token) else {
        return Answer::page(404, NOT_OURS);
    };
    if request.method != "POST" {
        return Answer::page(200, ASK);
    }
    match unsubscribe(world.database(), outbox_id, world.clock().now()).await {
        Ok(Some(done)) => {
            let ended = Field::Number(i64::try_from(done.ended).unwrap_or(i64::MAX));
            world.log().note(
                Level::Info,
                "recipient_unsubscribed",
                &[("outboxId", Field::Id(outbox_id)), ("rows", ended)],
            );
            for id in &done.unknown {
                world
                    .log()
                    .note(Level::Alarm, "outcome_unknown", &[("outboxId", Field::Id(id))]);
            }
            Answer::page(200, DONE)
        }
        Ok(None) => Answer::page(404, NOT_OURS),
        Err(error) => {
            // The caller of this door is a person or their mail program: they get the same advice for every failure.
            database_failed(world, &error);
            Answer::page(503, TRY_AGAIN).with_header("retry-after", RETRY_AFTER_SECONDS)
        }
    }
}

/// When a mail program may come again: most failures of the database pass within a minute.
const RETRY_AFTER_SECONDS: &str = "60";

/// A whole page with this title and these parts. All of it is constant, so nothing of a request can get into it.
macro_rules! page {
    ($title:literal, $($part:literal),+) => {
        concat!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
            "<meta name=\"color-scheme\" content=\"light dark\">\n",
            "<meta name=\"robots\" content=\"noindex\">\n",
            "<title>", $title, "</title>\n<style>\n", include_str!("unsubscribe.css"), "</style>\n</head>\n<body>\n<main>\n",
            "<h1>", $title, "</h1>\n",
            $($part, "\n",)+
            "</main>\n</body>\n</html>\n"
        )
    };
}

const ASK: &str = page!(
    "Stop these mails?",
    "<p>You will get no more mails of this kind. Other mails will still reach you.</p>",
    "<form method=\"post\"><button type=\"submit\">Stop these mails</button></form>"
);

const DONE: &str = page!(
    "Done",
    "<p>You will get no more mails of this kind.</p>",
    "<p class=\"aside\">One that was already on its way may still arrive.</p>"
);

const NOT_OURS: &str = page!(
    "This link does not work",
    "<p>It may have been cut off on its way here. Please open it from the mail once more.</p>"
);

const TRY_AGAIN: &str = page!(
    "That did not work",
    "<p>This is our fault. Please try again in a minute.</p>",
    "<form method=\"post\"><button type=\"submit\">Try again</button></form>"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_whole_and_loads_nothing() {
        for page in [ASK, DONE, NOT_OURS, TRY_AGAIN] {
            for part in [
                "<!doctype html>",
                "lang=\"en\"",
                "width=device-width",
                "prefers-color-scheme: dark",
            ] {
                assert!(page.contains(part), "{part}");
            }
            for outside in ["<script", "http", "src=", "href=", "url(", "@import", "<input"] {
                assert!(!page.contains(outside), "{outside}");
            }
            assert!(page.matches("<button").count() <= 1);
        }
    }
}

//! Reading back: `GET /emails/{id}` and `GET /emails`.

use serde_json::{Map, Value, json};

use super::access::{Purpose, admit};
use super::answer::{ErrorName, Refusal, Reply};
use super::ledger::{Fate, Seen, Sent};
use super::model::{Call, Model};
use crate::outbox::time::Millis;

/// Resend's limit on a page, in mails.
pub const PAGE_MAX: usize = 100;
/// A page when the request names no limit, in mails.
const PAGE_USUAL: usize = 20;

/// The query of a list, as received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageQuery {
    /// 1 to [`PAGE_MAX`].
    pub limit: Option<String>,
    /// Only mails older than the one with this id.
    pub after: Option<String>,
    /// Only mails younger than the one with this id.
    pub before: Option<String>,
}

impl Model {
    /// `GET /emails/{id}`.
    pub fn get(&mut self, now: Millis, call: &Call<'_>, id: &str) -> Reply {
        self.read(now, call, format!("/emails/{id}"), |model| {
            match model.ledger.find(id) {
                Some(sent) => Ok(whole(sent)),
                None => Err(Refusal::new(404, ErrorName::NotFound, "Email not found")),
            }
        })
    }

    /// `GET /emails`: newest first, without tags, html and text.
    pub fn list(&mut self, now: Millis, call: &Call<'_>, query: &PageQuery) -> Reply {
        self.read(now, call, "/emails".to_owned(), |model| model.page(query))
    }

    /// A request that got no further than its method, its path or its size.
    pub fn turn_away(&mut self, now: Millis, call: &Call<'_>, method: &str, path: &str, refusal: &Refusal) -> Reply {
        self.look(now, call, method, path.to_owned(), |_| Err(refusal.clone()))
    }

    fn read(
        &mut self,
        now: Millis,
        call: &Call<'_>,
        path: String,
        answer: impl FnOnce(&Self) -> Result<Value, Refusal>,
    ) -> Reply {
        self.look(now, call, "GET", path, answer)
    }

    /// Writes the request down, lets it in or not, and answers it.
    fn look(
        &mut self,
        now: Millis,
        call: &Call<'_>,
        method: &str,
        path: String,
        answer: impl FnOnce(&Self) -> Result<Value, Refusal>,
    ) -> Reply {
        let n = self.ledger.open(Seen {
            n: 0,
            at: now,
            method: method.to_owned(),
            path,
            idempotency_key: call.idempotency_key.map(str::to_owned),
            body_sha256: None,
            status: None,
            to: Vec::new(),
            outcome: Fate::Running,
            fault: None,
            id: None,
        });
        let reply = match admit(&mut self.rate, now, call, Purpose::Read) {
            Err((_, reply)) => reply,
            Ok(pass) => pass.mark(match answer(self) {
                Ok(body) => Reply::json(200, body.to_string()),
                Err(refusal) => refusal.reply(),
            }),
        };
        let fate = if reply.status < 400 { Fate::Read } else { Fate::Refused };
        self.ledger.close(n, fate, Some(reply.status), None);
        reply
    }

    fn page(&self, query: &PageQuery) -> Result<Value, Refusal> {
        let limit = match &query.limit {
            None => PAGE_USUAL,
            Some(text) => match text.parse::<usize>() {
                Ok(limit) if (1..=PAGE_MAX).contains(&limit) => limit,
                Ok(_) | Err(_) => return Err(Refusal::field("The `limit` must be a number from 1 to 100.")),
            },
        };
        let place = |id: &str| {
            self.ledger
                .index_of(id)
                .ok_or_else(|| Refusal::new(404, ErrorName::NotFound, "Email not found"))
        };
        let sent = self.ledger.sent();
        // Places count from the oldest; a page is read from its newest mail down.
        let (oldest, end) = match (&query.after, &query.before) {
            (Some(_), Some(_)) => {
                return Err(Refusal::field(
                    "The `after` and `before` parameters cannot be used together.",
                ));
            }
            (None, None) => (0, sent.len()),
            (Some(after), None) => (0, place(after)?),
            (None, Some(before)) => (place(before)?.saturating_add(1), sent.len()),
        };
        let size = end.saturating_sub(oldest).min(limit);
        // Before a mail: its nearest younger neighbours, not the newest of all.
        let start = if query.before.is_some() {
            oldest
        } else {
            end.saturating_sub(size)
        };
        let has_more = end.saturating_sub(oldest) > size;
        let data: Vec<Value> = sent
            .range(start..start.saturating_add(size))
            .rev()
            .map(|sent| Value::Object(line(sent)))
            .collect();
        Ok(json!({ "object": "list", "has_more": has_more, "data": data }))
    }
}

/// A mail as it stands in a list.
fn line(sent: &Sent) -> Map<String, Value> {
    let mail = &sent.mail;
    let list = |addresses: &[String]| {
        if addresses.is_empty() {
            Value::Null
        } else {
            json!(addresses)
        }
    };
    let fields = [
        ("id", json!(sent.id)),
        ("message_id", json!(format!("<{}@model.invalid>", sent.id))),
        ("to", json!(mail.to)),
        ("from", json!(mail.from)),
        ("created_at", json!(created_at(sent.accepted_at))),
        ("subject", json!(mail.subject)),
        ("bcc", list(&mail.bcc)),
        ("cc", list(&mail.cc)),
        ("reply_to", list(&mail.reply_to)),
        ("last_event", json!(sent.last_event)),
        ("scheduled_at", json!(mail.scheduled_at)),
    ];
    fields
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// A mail as it is read alone.
fn whole(sent: &Sent) -> Value {
    let mut fields = line(sent);
    fields.insert("object".to_owned(), json!("email"));
    fields.insert("html".to_owned(), json!(sent.mail.html));
    fields.insert("text".to_owned(), json!(sent.mail.text));
    if !sent.mail.tags.is_empty() {
        fields.insert("tags".to_owned(), json!(sent.mail.tags));
    }
    Value::Object(fields)
}

/// Resend's own way to write a time: `2023-04-03 22:13:42.674981+00`.
fn created_at(at: Millis) -> String {
    match jiff::Timestamp::from_millisecond(at.get()) {
        Ok(timestamp) => timestamp.strftime("%Y-%m-%d %H:%M:%S.%6f+00").to_string(),
        Err(_) => at.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devstack::provider::model::{Next, Settings};

    const CALL: Call<'static> = Call {
        authorization: Some("Bearer re_a"),
        user_agent: Some("t/1"),
        idempotency_key: None,
        body: b"",
        list: None,
    };

    fn with_mails(count: usize) -> Model {
        let mut model = Model::new(Settings {
            per_second: 0,
            ..Settings::default()
        });
        for n in 0..count {
            let body = format!(
                r#"{{"from":"a@acme.test","to":"b@acme.test","subject":"{n}","text":"x","tags":[{{"name":"t","value":"v"}}]}}"#
            );
            let Next::Running { ticket, .. } = model
                .arrive(
                    Millis::new(0),
                    &Call {
                        body: body.as_bytes(),
                        ..CALL
                    },
                )
                .next
            else {
                panic!("a good mail was refused")
            };
            model.finish(Millis::new(1_680_560_022_674), ticket, &format!("id-{n}"));
        }
        model
    }

    fn list(model: &mut Model, limit: &str, after: Option<&str>, before: Option<&str>) -> (Vec<String>, bool) {
        let query = PageQuery {
            limit: Some(limit.into()),
            after: after.map(str::to_owned),
            before: before.map(str::to_owned),
        };
        let reply = model.list(Millis::new(0), &CALL, &query);
        assert_eq!(reply.status, 200, "{}", reply.body);
        let body: Value = serde_json::from_str(&reply.body).unwrap();
        let ids = body["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|mail| mail["id"].as_str().unwrap().into())
            .collect();
        (ids, body["has_more"].as_bool().unwrap())
    }

    fn ids(of: &[usize]) -> Vec<String> {
        of.iter().map(|n| format!("id-{n}")).collect()
    }

    #[test]
    fn pages_run_from_the_newest_to_the_oldest_and_back() {
        let mut model = with_mails(5);
        assert_eq!(list(&mut model, "2", None, None), (ids(&[4, 3]), true));
        assert_eq!(list(&mut model, "2", Some("id-3"), None), (ids(&[2, 1]), true));
        assert_eq!(list(&mut model, "2", Some("id-1"), None), (ids(&[0]), false));
        assert_eq!(list(&mut model, "2", Some("id-0"), None), (ids(&[]), false));
        assert_eq!(list(&mut model, "2", None, Some("id-1")), (ids(&[3, 2]), true));
        assert_eq!(list(&mut model, "2", None, Some("id-3")), (ids(&[4]), false));
        assert_eq!(list(&mut model, "100", None, None), (ids(&[4, 3, 2, 1, 0]), false));
    }

    #[test]
    fn wrong_queries_are_refused() {
        let mut model = with_mails(1);
        let query = |limit: Option<&str>, after: Option<&str>, before: Option<&str>| PageQuery {
            limit: limit.map(str::to_owned),
            after: after.map(str::to_owned),
            before: before.map(str::to_owned),
        };
        let cases = [
            (query(Some("0"), None, None), 422),
            (query(Some("101"), None, None), 422),
            (query(Some("many"), None, None), 422),
            (query(None, Some("id-0"), Some("id-0")), 422),
            (query(None, Some("nobody"), None), 404),
        ];
        for (query, status) in cases {
            assert_eq!(model.list(Millis::new(0), &CALL, &query).status, status, "{query:?}");
        }
    }

    #[test]
    fn one_mail_is_read_whole_and_a_list_item_lacks_tags_and_content() {
        let mut model = with_mails(1);
        let one: Value = serde_json::from_str(&model.get(Millis::new(0), &CALL, "id-0").body).unwrap();
        assert_eq!(one["object"], "email");
        assert_eq!(one["text"], "x");
        assert_eq!(one["tags"], json!([{ "name": "t", "value": "v" }]));
        assert_eq!(one["created_at"], "2023-04-03 22:13:42.674000+00");
        assert_eq!(one["last_event"], "sent");
        let list: Value = serde_json::from_str(&model.list(Millis::new(0), &CALL, &PageQuery::default()).body).unwrap();
        let item = list["data"][0].as_object().unwrap();
        assert!(
            ["tags", "html", "text"]
                .iter()
                .all(|absent| !item.contains_key(*absent))
        );
        assert_eq!(model.get(Millis::new(0), &CALL, "nobody").status, 404);
    }
}

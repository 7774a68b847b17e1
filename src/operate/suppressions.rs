//! Suppressions: who must not be written to, since when and why. An address is personal data: it comes in a body, never
//! in a path or a query, and only its hash goes back.

use serde::Deserialize;
use serde_json::{Value, json};

use super::auth::Operator;
use super::http::{Answer, Request};
use super::lists::{Page, is_sha256, note, query_invalid};
use super::story::time;
use crate::config::Config;
use crate::outbox::address;
use crate::outbox::keys::recipient_hash;
use crate::outbox::time::Millis;
use crate::ports::{Clock as _, World};
use crate::store::database::DatabaseError;
use crate::store::suppressions::{self, Change, Entry, Lifted, Subject};

/// Every family.
const ALL_FAMILIES: &str = "*";

/// The doors of this room.
pub(super) enum Door {
    List,
    Lift,
    LookUp,
}

impl Door {
    /// The door behind the rest of the path.
    pub(super) fn of(rest: &[&str]) -> Option<Self> {
        match rest {
            [] => Some(Self::List),
            ["lift"] => Some(Self::Lift),
            ["look-up"] => Some(Self::LookUp),
            _ => None,
        }
    }

    pub(super) const fn methods(&self) -> &'static [&'static str] {
        match self {
            Self::List => &["GET", "POST"],
            Self::Lift | Self::LookUp => &["POST"],
        }
    }
}

/// Answers an operator.
///
/// # Errors
/// [`DatabaseError`].
pub(super) async fn answer<W: World>(
    world: &W,
    config: &Config,
    request: &Request<'_>,
    operator: &Operator,
    door: Door,
) -> Result<Answer, DatabaseError> {
    match door {
        Door::List if request.method == "GET" => list(world, request).await,
        Door::List => suppress(world, config, request, operator).await,
        Door::Lift => lift(world, config, request, operator).await,
        Door::LookUp => look_up(world, config, request).await,
    }
}

async fn list<W: World>(world: &W, request: &Request<'_>) -> Result<Answer, DatabaseError> {
    let page = match Page::of(request) {
        Ok(page) => page,
        Err(refusal) => return Ok(refusal),
    };
    let all = match request.parameter("all").as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Ok(query_invalid()),
    };
    let after = match page.after.as_deref().map(|cursor| cursor.split_once('.')) {
        None => None,
        Some(Some((recipient_hash, family))) => Some(Subject { recipient_hash, family }),
        Some(None) => return Ok(query_invalid()),
    };
    let now = world.clock().now();
    let entries = suppressions::list(world.database(), now, all, after, page.rows_max()).await?;
    Ok(page.answer(
        &entries,
        |entry| format!("{}.{}", entry.recipient_hash, entry.family),
        |entry| shown(entry, now),
    ))
}

/// Whom an order is about: exactly one of the two.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct WhomOrder {
    address: Option<String>,
    recipient_hash: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct SuppressOrder {
    address: Option<String>,
    recipient_hash: Option<String>,
    family: Option<String>,
    #[serde(default)]
    reason: Reason,
    until: Option<String>,
    note: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct LiftOrder {
    address: Option<String>,
    recipient_hash: Option<String>,
    family: Option<String>,
    created_at: Option<String>,
    note: Option<String>,
}

/// Why somebody is suppressed; the words are those of the database column.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reason {
    Bounced,
    Complained,
    Unsubscribed,
    #[default]
    Manual,
}

impl Reason {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Bounced => "bounced",
            Self::Complained => "complained",
            Self::Unsubscribed => "unsubscribed",
            Self::Manual => "manual",
        }
    }
}

/// The recipient's hash, however the order names them.
fn whom(config: &Config, address: Option<&str>, hash: Option<&str>) -> Result<String, Answer> {
    match (address, hash) {
        (Some(text), None) => match address::parse(text) {
            Ok(address) => Ok(recipient_hash(&config.recipient_secret, &address)),
            Err(_) => Err(Answer::problem(
                422,
                "address_invalid",
                "Send one address, as an intent has it in to.",
            )),
        },
        (None, Some(hash)) if is_sha256(hash) => Ok(hash.to_ascii_lowercase()),
        (None, Some(_)) | (None, None) | (Some(_), Some(_)) => Err(Answer::problem(
            422,
            "recipient_required",
            "Send exactly one of address and recipientHash; a hash has 64 hexadecimal digits.",
        )),
    }
}

/// What the orders that change something have in common.
struct Meant {
    recipient_hash: String,
    family: String,
    note: Option<String>,
}

impl Meant {
    /// Reads it, and what else the order says, by `check`, which is told the family.
    fn of<T>(
        recipient_hash: Result<String, Answer>,
        family: Option<String>,
        text: Option<String>,
        check: impl FnOnce(&str) -> Result<T, Answer>,
    ) -> Result<(Self, T), Answer> {
        let recipient_hash = recipient_hash?;
        let family = family.unwrap_or_else(|| ALL_FAMILIES.to_owned());
        let more = check(&family)?;
        let meant = Self {
            recipient_hash,
            family,
            note: note(text)?,
        };
        Ok((meant, more))
    }

    fn subject(&self) -> Subject<'_> {
        Subject {
            recipient_hash: &self.recipient_hash,
            family: &self.family,
        }
    }
}

async fn suppress<W: World>(
    world: &W,
    config: &Config,
    request: &Request<'_>,
    operator: &Operator,
) -> Result<Answer, DatabaseError> {
    let now = world.clock().now();
    let read = || -> Result<_, Answer> {
        let order: SuppressOrder = request.order()?;
        let hash = whom(config, order.address.as_deref(), order.recipient_hash.as_deref());
        Meant::of(hash, order.family, order.note, |family| {
            if family != ALL_FAMILIES && config.policy.family(family).is_none() {
                return Err(Answer::problem(
                    422,
                    "family_unknown",
                    "Send a family of this version, or * for all.",
                ));
            }
            match order.until.as_deref().map(Millis::parse_rfc3339) {
                None => Ok((order.reason, None)),
                Some(Ok(at)) if at > now => Ok((order.reason, Some(at))),
                Some(_) => Err(Answer::problem(
                    422,
                    "until_invalid",
                    "Send an RFC 3339 time with an offset that is still to come, or leave until out.",
                )),
            }
        })
    };
    let (meant, (reason, until)) = match read() {
        Ok(order) => order,
        Err(refusal) => return Ok(refusal),
    };
    let order = operator.order(meant.note.as_deref(), now);
    let entry = suppressions::suppress(world.database(), meant.subject(), reason.as_str(), until, &order).await?;
    Ok(Answer::json(200, shown(&entry, now)))
}

async fn lift<W: World>(
    world: &W,
    config: &Config,
    request: &Request<'_>,
    operator: &Operator,
) -> Result<Answer, DatabaseError> {
    let now = world.clock().now();
    let read = || -> Result<_, Answer> {
        let order: LiftOrder = request.order()?;
        let hash = whom(config, order.address.as_deref(), order.recipient_hash.as_deref());
        // Any family: one that this version no longer has may have left entries.
        Meant::of(hash, order.family, order.note, |_| {
            let created_at = order.created_at.as_deref().map(Millis::parse_rfc3339).transpose();
            created_at.map_err(|_| {
                Answer::problem(
                    422,
                    "created_at_invalid",
                    "Send createdAt as the list or the look-up shows it, or leave it out.",
                )
            })
        })
    };
    let (meant, created_at) = match read() {
        Ok(order) => order,
        Err(refusal) => return Ok(refusal),
    };
    let order = operator.order(meant.note.as_deref(), now);
    Ok(
        match suppressions::lift(world.database(), meant.subject(), created_at, &order).await? {
            Lifted::Done(entry) => Answer::json(200, shown(&entry, now)),
            Lifted::Changed => Answer::problem(
                409,
                "suppression_changed",
                "The suppression is another one than createdAt names. Nothing was lifted; look it up and decide anew.",
            ),
            Lifted::NotThere => Answer::problem(
                404,
                "no_such_suppression",
                "No suppression of this recipient and family is in force.",
            ),
        },
    )
}

async fn look_up<W: World>(world: &W, config: &Config, request: &Request<'_>) -> Result<Answer, DatabaseError> {
    let read = || -> Result<_, Answer> {
        let order: WhomOrder = request.order()?;
        whom(config, order.address.as_deref(), order.recipient_hash.as_deref())
    };
    let hash = match read() {
        Ok(hash) => hash,
        Err(refusal) => return Ok(refusal),
    };
    let now = world.clock().now();
    let (entries, history) = suppressions::look_up(world.database(), &hash).await?;
    Ok(Answer::json(
        200,
        json!({
            "recipientHash": hash,
            "entries": entries.iter().map(|entry| shown(entry, now)).collect::<Vec<_>>(),
            "history": history.iter().map(change).collect::<Vec<_>>(),
        }),
    ))
}

fn shown(entry: &Entry, now: Millis) -> Value {
    json!({
        "recipientHash": entry.recipient_hash,
        "family": entry.family,
        "reason": entry.reason,
        "inForce": entry.in_force(now),
        "until": entry.until.map(time),
        "liftedAt": entry.lifted_at.map(time),
        "createdAt": time(entry.created_at),
        "outboxId": entry.outbox_id,
    })
}

fn change(change: &Change) -> Value {
    json!({
        "change": change.change,
        "family": change.family,
        "reason": change.reason,
        "until": change.until.map(time),
        "outboxId": change.outbox_id,
        "at": time(change.at),
    })
}

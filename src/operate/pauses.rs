//! Pauses: what must not be sent for a while, of everything or of one family, and who said so.

use serde::Deserialize;
use serde_json::{Value, json};

use super::auth::Operator;
use super::http::{Answer, Request};
use super::lists::note;
use super::story::time;
use crate::config::Config;
use crate::outbox::time::Millis;
use crate::ports::{Clock as _, World};
use crate::store::database::DatabaseError;
use crate::store::operator_log::Order;
use crate::store::pauses::{self, Pause};

/// The scope of a pause of everything.
const EVERYTHING: &str = "*";
/// The longest pause that may be ordered, in ms: 90 days. What is to wait longer has a family on hold.
const UNTIL_MS_MAX: i64 = 90 * 86_400_000;
/// The longest scope that is looked for; a family's name is shorter.
const SCOPE_BYTES_MAX: usize = 64;

/// The doors of this room.
pub(super) enum Door<'a> {
    List,
    Lift(&'a str),
}

impl<'a> Door<'a> {
    /// The door behind the rest of the path.
    pub(super) fn of(rest: &[&'a str]) -> Option<Self> {
        match *rest {
            [] => Some(Self::List),
            [scope, "lift"] => Some(Self::Lift(scope)),
            _ => None,
        }
    }

    pub(super) const fn methods(&self) -> &'static [&'static str] {
        match self {
            Self::List => &["GET", "POST"],
            Self::Lift(_) => &["POST"],
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
    door: Door<'_>,
) -> Result<Answer, DatabaseError> {
    match door {
        Door::List if request.method == "GET" => list(world).await,
        Door::List => set(world, config, request, operator).await,
        Door::Lift(scope) => lift(world, request, operator, scope).await,
    }
}

async fn list<W: World>(world: &W) -> Result<Answer, DatabaseError> {
    let now = world.clock().now();
    let pauses = pauses::list(world.database()).await?;
    let items: Vec<Value> = pauses.iter().map(|pause| shown(pause, now)).collect();
    Ok(Answer::json(200, json!({ "items": items })))
}

/// Why an operator pauses; the words are those of the database column.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reason {
    ProviderTrouble,
    Maintenance,
    WrongContent,
    WrongRecipients,
    Reputation,
    Manual,
}

impl Reason {
    const fn as_str(self) -> &'static str {
        match self {
            Self::ProviderTrouble => "provider_trouble",
            Self::Maintenance => "maintenance",
            Self::WrongContent => "wrong_content",
            Self::WrongRecipients => "wrong_recipients",
            Self::Reputation => "reputation",
            Self::Manual => "manual",
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct PauseOrder {
    scope: String,
    until: String,
    reason: Reason,
    note: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LiftOrder {
    note: Option<String>,
}

async fn set<W: World>(
    world: &W,
    config: &Config,
    request: &Request<'_>,
    operator: &Operator,
) -> Result<Answer, DatabaseError> {
    let now = world.clock().now();
    let read = || -> Result<_, Answer> {
        let order: PauseOrder = request.order()?;
        if order.scope != EVERYTHING && config.policy.family(&order.scope).is_none() {
            return Err(Answer::problem(
                422,
                "family_unknown",
                "Send a family of this version, or * for all.",
            ));
        }
        let latest = now.get().saturating_add(UNTIL_MS_MAX);
        match Millis::parse_rfc3339(&order.until) {
            Ok(until) if until > now && until.get() <= latest => {
                Ok((order.scope, order.reason, until, note(order.note)?))
            }
            Ok(_) | Err(_) => Err(Answer::problem(
                422,
                "until_invalid",
                "Send an RFC 3339 time with an offset that is still to come, at most 90 days from now.",
            )),
        }
    };
    let (scope, reason, until, note) = match read() {
        Ok(order) => order,
        Err(refusal) => return Ok(refusal),
    };
    let order = Order {
        operator: &operator.name,
        note: note.as_deref(),
        now,
    };
    let pause = pauses::set(world.database(), &scope, reason.as_str(), until, &order).await?;
    Ok(Answer::json(200, shown(&pause, now)))
}

async fn lift<W: World>(
    world: &W,
    request: &Request<'_>,
    operator: &Operator,
    scope: &str,
) -> Result<Answer, DatabaseError> {
    let now = world.clock().now();
    let read = || -> Result<_, Answer> {
        let order: LiftOrder = request.order()?;
        note(order.note)
    };
    let note = match read() {
        Ok(note) => note,
        Err(refusal) => return Ok(refusal),
    };
    // A browser's or a client's spelling of the same path.
    let scope = if scope == "%2A" || scope == "%2a" {
        EVERYTHING
    } else {
        scope
    };
    let none = || {
        Answer::problem(
            404,
            "no_such_pause",
            "Nothing is paused under this scope, and nothing waits for it.",
        )
    };
    let named = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if scope != EVERYTHING && (scope.len() > SCOPE_BYTES_MAX || !scope.bytes().all(named)) {
        return Ok(none());
    }
    let order = Order {
        operator: &operator.name,
        note: note.as_deref(),
        now,
    };
    let lifted = pauses::lift(world.database(), scope, &order).await?;
    if lifted.pause.is_none() && lifted.woken == 0 {
        return Ok(none());
    }
    Ok(Answer::json(
        200,
        json!({
            "scope": scope,
            "pause": lifted.pause.as_ref().map(|pause| shown(pause, now)),
            "woken": lifted.woken,
            "remaining": lifted.remaining,
        }),
    ))
}

/// One pause, as lists and answers have it. It names nobody.
pub(super) fn shown(pause: &Pause, now: Millis) -> Value {
    let state = if pause.probing == 1 && pause.until > now.get() {
        "probing"
    } else if pause.until > now.get() {
        "in_force"
    } else {
        "run_out"
    };
    json!({
        "scope": pause.scope,
        "state": state,
        "reason": pause.reason,
        "until": time(pause.until),
        "strikes": pause.strikes,
        "setBy": pause.set_by,
        "since": time(pause.created_at),
    })
}

//! Receipts: what the provider says about mails it took. Acceptance is not delivery, and silence is not failure.
//!
//! IO steps, and what a death right after each leaves behind:
//!
//! 1. *Hear* (one transaction): the event, what it proves, the delivery, the suppression and the event's mark, or
//!    nothing of them. Dead after it: the provider sends the event again, and it is known.
//!    An event that nobody here understands is *parked* instead, under its own hash. Dead after it: the same.
//! 2. *Answer*. Only a database that could not take the event makes the provider send it again: repeating cannot mend
//!    anything else, and an endpoint that goes on failing is switched off.
//!
//! An event that belongs to no row waits. The settle that writes its message id joins it, in the same transaction; so does
//! the relay, where the id came in another way.

use core::time::Duration;

pub use crate::outbox::signature::{
    EVENT_ID_BYTES_MAX, HEADER_NAMES, SIGNATURE_HEADER_BYTES_MAX, SIGNATURES_MAX, SignatureError, SignatureHeaders,
    SigningKeys, TOLERANCE_S, Verified, WEBHOOK_SECRET_BYTES_MAX, WEBHOOK_SECRET_BYTES_MIN, WEBHOOK_SECRETS_MAX,
    WebhookSecrets, verify,
};

use crate::config::{Config, PROVIDER};
use crate::outbox::keys::recipient_hash;
use crate::outbox::receipt::{BounceKind, Named, News, Reading, Receipt, read};
use crate::parking::park_receipt;
use crate::ports::{Clock as _, Field, Level, Log as _, World};
use crate::store::database::DatabaseError;
use crate::store::receipts::{About, Heard, NewReceipt, hear};

/// How far ahead of our clock an event may have happened: more than any two clocks differ.
const AHEAD_MAX: Duration = Duration::from_secs(24 * 3_600);

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reception {
    /// Its effects are written.
    Heard,
    /// It was known already.
    Known,
    /// It belongs to no row yet.
    Waits,
    /// It is none of ours: another environment's, or about something else than a mail.
    Skipped,
    /// Nobody here understands it; it is parked for a person, for this reason.
    Parked(&'static str),
}

impl Reception {
    /// The stable code, for answers.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Heard => "heard",
            Self::Known => "known",
            Self::Waits => "waits",
            Self::Skipped => "skipped",
            Self::Parked(_) => "parked",
        }
    }
}

/// Takes an event whose signature was good.
///
/// # Errors
/// [`DatabaseError`]: the provider has to send it again.
pub async fn receive<W: World>(
    world: &W,
    config: &Config,
    event: &Verified<'_>,
    body: &[u8],
) -> Result<Reception, DatabaseError> {
    let reception = understand(world, config, event.event_id(), body).await?;
    if let Reception::Parked(reason) = reception {
        park_receipt(world, reason, event.event_id(), body).await?;
    }
    Ok(reception)
}

/// Takes an event, unless nobody here understands it: [`Reception::Parked`] says that it should be kept.
///
/// # Errors
/// [`DatabaseError`]; nothing was written, unless it is `Ambiguous`.
pub async fn understand<W: World>(
    world: &W,
    config: &Config,
    event_id: &str,
    body: &[u8],
) -> Result<Reception, DatabaseError> {
    let receipt = match read(body, &config.sender.environment) {
        Reading::About(receipt) => receipt,
        Reading::OtherEnvironment => return Ok(skipped(world, "other_environment")),
        Reading::NotAboutAMail => return Ok(skipped(world, "not_about_a_mail")),
        Reading::NotUnderstood(reason) => return Ok(Reception::Parked(reason)),
    };
    let now = world.clock().now();
    if receipt.at > now.plus(AHEAD_MAX) {
        // Whatever it says would outrank all that the provider says later.
        return Ok(Reception::Parked("receipt_time_invalid"));
    }
    let hash = match &receipt.named {
        Named::One(address) => Some(recipient_hash(&config.recipient_secret, address)),
        Named::Several | Named::Nobody => None,
    };
    let new = NewReceipt {
        event_id,
        news: receipt.news,
        bounce: receipt.bounce,
        at: receipt.at,
        provider: PROVIDER,
        provider_scope: &config.provider_scope,
        message_id: &receipt.message_id,
        tagged_id: receipt.tagged_id.as_deref(),
        about: match (&receipt.named, &hash) {
            (Named::One(_), Some(hash)) => About::Recipient(hash),
            (Named::Nobody, _) => About::TheRow,
            (Named::Several, _) | (Named::One(_), None) => About::Unclear,
        },
    };
    match hear(world.database(), &new, now).await {
        Ok(heard) => {
            note(world, &receipt, &heard);
            Ok(match (heard.known, heard.outbox_id) {
                (1, _) => Reception::Known,
                (_, Some(_)) => Reception::Heard,
                (_, None) => Reception::Waits,
            })
        }
        // The event itself is what the database refuses: sent again, it would be refused again.
        Err(DatabaseError::Constraint { .. } | DatabaseError::Failed { .. } | DatabaseError::Shape) => {
            Ok(Reception::Parked("receipt_refused"))
        }
        Err(
            error @ (DatabaseError::Busy
            | DatabaseError::Refused { .. }
            | DatabaseError::SchemaMismatch
            | DatabaseError::Ambiguous),
        ) => Err(error),
    }
}

fn skipped<W: World>(world: &W, reason: &'static str) -> Reception {
    world
        .log()
        .note(Level::Info, "receipt_skipped", &[("reason", Field::Code(reason))]);
    Reception::Skipped
}

fn note<W: World>(world: &W, receipt: &Receipt, heard: &Heard) {
    let log = world.log();
    let news = ("news", Field::Code(receipt.news.as_str()));
    if heard.known == 1 {
        log.note(Level::Info, "receipt_known", &[news]);
        return;
    }
    let Some(id) = heard.outbox_id.as_deref() else {
        // It may be another program's on the same account. What people said must not get lost in it all the same.
        let level = if suppresses(receipt) { Level::Warn } else { Level::Info };
        log.note(level, "receipt_waits", &[news]);
        return;
    };
    let id = ("outboxId", Field::Id(id));
    log.note(Level::Info, "receipt_heard", &[news, id]);
    if heard.proved == 1 {
        log.note(Level::Warn, "sent_by_receipt", &[id]);
    }
    if heard.second_mail == 1 {
        log.note(Level::Alarm, "duplicate_seen", &[id]);
    }
    if heard.conflict == 1 {
        log.note(Level::Alarm, "message_id_conflict", &[id]);
    }
    if suppresses(receipt) && receipt.named == Named::Several {
        log.note(Level::Alarm, "receipt_recipient_unclear", &[id]);
    }
    if receipt.bounce == Some(BounceKind::Undetermined) {
        log.note(Level::Warn, "bounce_undetermined", &[id]);
    }
}

/// Whether nobody may write to the recipient any more.
fn suppresses(receipt: &Receipt) -> bool {
    receipt.news == News::Complained || (receipt.news == News::Bounced && receipt.bounce == Some(BounceKind::Permanent))
}

//! From a claimed row to bytes that may be sent: the seal it has, or a new one.

use std::rc::Rc;

use super::outside::hours_of;
use super::verdict::Case;
use crate::config::Config;
use crate::hours::Hours;
use crate::outbox::attachment::Attachment;
use crate::outbox::content::Content;
use crate::outbox::letter::{Body, Letter};
use crate::outbox::seal::{Sealed, seal};
use crate::outbox::time::Millis;
use crate::outbox::unsubscribe;
use crate::provider::render::{Draft, DraftBody, build_request};
use crate::store::claim::ClaimedRow;
use crate::store::open::{NewSeal, Opening, Rejection};

/// Tries of a sealed row whose family this version does not have: as many as the families of the first version allow.
const RETRY_LIMIT_DEFAULT: u32 = 12;

/// A row with its final bytes. It can only be made from a claimed row, and only by sealing or by verifying a seal.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) id: String,
    pub(super) idempotency_key: String,
    /// The bytes that carry it: its own, or those of the batch that it is in.
    pub(super) sealed: Rc<Sealed>,
    pub(super) attempt_count: u32,
    /// How many tries its family allows.
    retry_limit: u32,
    /// Earlier claims that counted no try.
    pub(super) idle_claims: u32,
    /// Earlier attempts that may have been accepted.
    pub(super) doubts: u32,
    /// When the provider may first have seen the key.
    pub(super) anchor: Option<Millis>,
    pub(super) not_after: Option<Millis>,
    /// When its family keeps quiet.
    pub(super) hours: Option<Hours>,
    /// The attempt that will be opened.
    pub(super) attempt: String,
    /// Whether the bytes are new, and must be frozen before they are sent.
    is_new: bool,
    pub(super) template_version: Option<&'static str>,
    /// The family, where the mail may go out together with others.
    pub(super) joins: Option<&'static str>,
}

/// A row that cannot be sent: its letter, its template or its seal cannot be read.
#[derive(Debug)]
pub(super) struct Unreadable {
    pub(super) id: String,
    pub(super) code: &'static str,
    pub(super) template_version: Option<&'static str>,
}

/// Seals what has no seal yet and verifies what has one. Never renders a row that was sealed before.
pub(super) fn prepare(mut row: ClaimedRow, attempt: String, config: &Config) -> Result<Ready, Unreadable> {
    let template_version = row.template.as_deref().and_then(|name| config.policy.version_of(name));
    let files = row.attachments.take();
    let sealed = match (&row.seal_sha256, row.seal_body.take()) {
        (Some(sha256), Some(body)) => Sealed::verify(body, sha256).map_err(|_| "seal_corrupt"),
        (Some(_), None) => Err("seal_missing"),
        (None, _) => render(&row, files, config),
    };
    with_bytes(row, sealed.map(Rc::new), attempt, config, template_version)
}

/// A member of a sealed batch: the batch's bytes, verified once for all of them, carry it.
pub(super) fn prepare_member(
    row: ClaimedRow,
    sealed: Result<Rc<Sealed>, &'static str>,
    attempt: String,
    config: &Config,
) -> Result<Ready, Unreadable> {
    with_bytes(row, sealed, attempt, config, None)
}

fn with_bytes(
    row: ClaimedRow,
    sealed: Result<Rc<Sealed>, &'static str>,
    attempt: String,
    config: &Config,
    template_version: Option<&'static str>,
) -> Result<Ready, Unreadable> {
    let family = config.policy.family(&row.family);
    let hours = hours_of(&row, config);
    match sealed {
        Ok(sealed) => Ok(Ready {
            is_new: row.seal_sha256.is_none(),
            joins: family
                .filter(|family| family.batch && row.seal_sha256.is_none() && row.batch_refused == 0)
                .map(|family| family.name),
            id: row.id,
            idempotency_key: row.idempotency_key,
            sealed,
            attempt_count: row.attempt_count,
            retry_limit: family.map_or(RETRY_LIMIT_DEFAULT, |family| family.retry_limit),
            idle_claims: u32::try_from(row.claim_count.saturating_sub(1))
                .unwrap_or(0)
                .saturating_sub(row.attempt_count),
            doubts: row.doubts,
            anchor: row.window_anchor_at.map(Millis::new),
            not_after: row.not_after.map(Millis::new),
            hours,
            attempt,
            template_version,
        }),
        Err(code) => Err(Unreadable {
            id: row.id,
            code,
            template_version,
        }),
    }
}

fn render(row: &ClaimedRow, files: Option<String>, config: &Config) -> Result<Sealed, &'static str> {
    let letter = row.letter.as_deref().ok_or("letter_missing")?;
    let letter = Letter::from_json(letter).map_err(|_| "letter_unreadable")?;
    let attachments = attachments(files, &letter)?;
    let unsubscribe = unsubscribe_link(row, config)?;
    let to = letter.to.mailbox();
    let data;
    let no_headers = Default::default();
    let (from, reply_to, headers, body) = match (&letter.body, row.template.as_deref()) {
        (Body::Data(map), Some(name)) => {
            config.policy.version_of(name).ok_or("template_missing")?;
            data = letter.template_data(map);
            (None, None, &no_headers, DraftBody::Template { name, data: &data })
        }
        (Body::Content(content), None) => {
            let Content {
                subject,
                html,
                text,
                from,
                reply_to,
                headers,
            } = content.as_ref();
            let body = DraftBody::Content {
                subject,
                html: html.as_deref(),
                text: text.as_deref(),
            };
            (
                from.as_ref().map(|one| one.mailbox()),
                reply_to.as_ref().map(|one| one.mailbox()),
                headers,
                body,
            )
        }
        (Body::Data(_), None) | (Body::Content(_), Some(_)) => return Err("letter_unreadable"),
    };
    let draft = Draft {
        to: &to,
        from: from.as_deref(),
        reply_to: reply_to.as_deref(),
        headers,
        tags: &letter.tags,
        outbox_id: &row.id,
        unsubscribe: unsubscribe.as_deref(),
        body,
        attachments: &attachments,
    };
    build_request(&config.sender, &draft)
        .map(seal)
        .map_err(|error| error.code())
}

/// The letter's attachments, all of them: a mail never goes out without what belongs to it. The text goes here: it may
/// have megabytes, which the request is about to need again.
fn attachments(text: Option<String>, letter: &Letter) -> Result<Vec<Attachment>, &'static str> {
    let stored = text.map_or(Ok(Vec::new()), |text| Attachment::list_from_json(&text));
    let attachments = stored.map_err(|_| "attachments_unreadable")?;
    if attachments.len() == letter.attachments {
        Ok(attachments)
    } else {
        Err("attachments_missing")
    }
}

/// The link with which the recipient ends this kind of mail, where the family has one. A mail that should have it never
/// goes out without it.
fn unsubscribe_link(row: &ClaimedRow, config: &Config) -> Result<Option<String>, &'static str> {
    let family = config.policy.family(&row.family);
    if !family.is_some_and(|family| family.unsubscribe) {
        return Ok(None);
    }
    // Settings are checked before any work; a family can still have turned to shadow mode since its row was recorded.
    let public_url = config.public_url.as_deref().ok_or("public_url_missing")?;
    let token = unsubscribe::token(&config.recipient_secret, &row.id);
    Ok(Some(format!("{public_url}/v1/unsubscribe/{token}")))
}

impl Ready {
    /// What is known of the row when its call ends, or is given up.
    pub(super) fn case(&self, now: Millis, random: u64) -> Case<'_> {
        Case {
            id: &self.id,
            attempt: &self.attempt,
            attempt_count: self.attempt_count,
            retry_limit: self.retry_limit,
            idle_claims: self.idle_claims,
            doubts: self.doubts,
            anchor: self.anchor.unwrap_or(now),
            now,
            random,
        }
    }

    /// What the database is asked to freeze and open.
    pub(super) fn opening(&self) -> Opening<'_> {
        Opening {
            id: &self.id,
            attempt: &self.attempt,
            sha256: self.sealed.sha256_hex(),
            seal: self.is_new.then(|| NewSeal {
                body: self.sealed.body(),
                bytes: self.sealed.body().len(),
                template_version: self.template_version,
            }),
        }
    }
}

impl Unreadable {
    /// What the database is told about it.
    pub(super) fn rejection(&self) -> Rejection<'_> {
        Rejection {
            id: &self.id,
            code: self.code,
            template_version: self.template_version,
        }
    }
}

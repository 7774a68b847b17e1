//! Configuration: read from the environment's variables and secrets, and checked as a whole before any work is done.

mod read;
pub mod timing;
mod tokens;

pub use read::{Lookup, SettingError};
pub use timing::{Timing, TimingError};
pub use tokens::TokenList;

use crate::outbox::keys::{KeyRing, Secret};
use crate::outbox::signature::WebhookSecrets;
use crate::policy::Policy;
use crate::provider::render::Sender;

/// Everything the program is told from outside. `Debug` shows no secret.
#[derive(Clone, Debug)]
pub struct Config {
    /// Who the mails are from, and the environment that every mail is tagged with.
    pub sender: Sender,
    /// Where the database is, as an `http(s)` address without a trailing slash.
    pub database_url: String,
    /// Where recipients reach this Worker, without a trailing slash; there wherever a family that is sent has
    /// unsubscribe links.
    pub public_url: Option<String>,
    /// The provider's address, without a trailing slash.
    pub provider_url: String,
    /// The provider account. A mail that was sealed for one account is never sent through another.
    pub provider_scope: String,
    /// Name of the main queue, as the batch carries it.
    pub queue_name: String,
    /// Name of the dead-letter queue.
    pub dead_letter_queue_name: String,
    /// Secrets of the business keys.
    pub keys: KeyRing,
    /// Secret of the recipient hash.
    pub recipient_secret: Secret,
    /// Who may record intents.
    pub producers: TokenList,
    /// Who may look at health and more.
    pub operators: TokenList,
    /// What the provider's events are signed with. A wrong setting closes that door alone: mail goes on.
    pub webhooks: WebhookSecrets,
    /// `PARKED_ALARM_AT`: how many parked inputs make `/health` complain; 0 for none.
    pub parked_alarm_at: u32,
    /// All the times and numbers.
    pub timing: Timing,
    /// What this version of the program can do.
    pub policy: &'static Policy,
    /// Tokens for the database and the provider.
    pub credentials: Credentials,
}

/// Tokens that go out with our own requests.
#[derive(Clone)]
pub struct Credentials {
    /// For the database; a local one needs none.
    pub database: Option<String>,
    /// For the provider.
    pub provider: String,
    /// For reading back at the provider: a key with full access. Without it, only a person's order reads, with the
    /// key above, which may be one that only sends.
    pub provider_reading: Option<String>,
}

impl core::fmt::Debug for Credentials {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        out.write_str("Credentials(..)")
    }
}

/// The only provider so far.
pub const PROVIDER: &str = "resend";

/// Longest environment name; it travels as a tag.
const ENVIRONMENT_BYTES_MAX: usize = 64;

/// Longest public address: with path and token it has to fit a header line of 998 bytes.
const PUBLIC_URL_BYTES_MAX: usize = 512;
/// The most parked inputs that may be waited for: `/health` counts no further.
const PARKED_ALARM_AT_MAX: u64 = 1_000;

impl Config {
    /// Reads and checks everything.
    ///
    /// # Errors
    /// [`SettingError`] names the first setting that is missing or wrong, and what it should be; never its value.
    pub fn read(lookup: &dyn Lookup) -> Result<Self, SettingError> {
        let environment = read::required(lookup, "ENVIRONMENT")?;
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if environment.len() > ENVIRONMENT_BYTES_MAX || !environment.bytes().all(legal) {
            return Err(SettingError::invalid(
                "ENVIRONMENT",
                "must be 1 to 64 letters, digits, - or _",
            ));
        }
        let database_url = read::address(lookup, "DATABASE_URL")?;
        let database = read::optional(lookup, "DATABASE_TOKEN");
        if database.is_none() && !read::is_loopback(&database_url) {
            return Err(SettingError::Missing("DATABASE_TOKEN"));
        }
        let policy = Policy::built_in();
        let public_url = public_url(lookup, policy)?;
        Ok(Self {
            sender: Sender {
                from: read::mailbox(lookup, "MAIL_FROM")?.ok_or(SettingError::Missing("MAIL_FROM"))?,
                reply_to: read::mailbox(lookup, "MAIL_REPLY_TO")?,
                environment,
                message_id: read::switch(lookup, "MESSAGE_ID_HEADER", true)?,
            },
            public_url,
            database_url,
            provider_url: read::address(lookup, "PROVIDER_URL")?,
            provider_scope: read::optional(lookup, "PROVIDER_SCOPE").unwrap_or_else(|| "main".to_owned()),
            queue_name: read::required(lookup, "QUEUE_NAME")?,
            dead_letter_queue_name: read::required(lookup, "DEAD_LETTER_QUEUE_NAME")?,
            keys: KeyRing::parse(&read::required(lookup, "KEY_SECRETS")?)
                .map_err(|_| SettingError::invalid("KEY_SECRETS", "must be 1 to 8 of id:base64, comma separated"))?,
            recipient_secret: Secret::parse(&format!("recipient:{}", read::required(lookup, "RECIPIENT_SECRET")?))
                .map_err(|_| SettingError::invalid("RECIPIENT_SECRET", "must be base64 of at least 16 bytes"))?,
            producers: TokenList::parse("PRODUCER_TOKENS", read::optional(lookup, "PRODUCER_TOKENS"))?,
            operators: TokenList::parse("OPERATOR_TOKENS", read::optional(lookup, "OPERATOR_TOKENS"))?,
            webhooks: WebhookSecrets::parse(read::optional(lookup, "WEBHOOK_SECRETS").as_deref()),
            parked_alarm_at: u32::try_from(read::number(lookup, "PARKED_ALARM_AT", 1, (0, PARKED_ALARM_AT_MAX))?)
                .unwrap_or(u32::MAX),
            timing: Timing::read(lookup)?,
            policy,
            credentials: Credentials {
                database,
                provider: read::required(lookup, "RESEND_API_KEY")?,
                provider_reading: read::optional(lookup, "RESEND_READ_KEY"),
            },
        })
    }
}

/// Where links in mails lead. Without it no family that has such links may be sent.
fn public_url(lookup: &dyn Lookup, policy: &Policy) -> Result<Option<String>, SettingError> {
    const NAME: &str = "PUBLIC_URL";
    if read::optional(lookup, NAME).is_none() {
        return if policy.has_unsubscribe_links() {
            Err(SettingError::Missing(NAME))
        } else {
            Ok(None)
        };
    }
    let url = read::address(lookup, NAME)?;
    if url.len() > PUBLIC_URL_BYTES_MAX {
        return Err(SettingError::invalid(NAME, "must have at most 512 bytes"));
    }
    if read::is_reserved_to_fail(&url) {
        // The placeholder of the shipped file would be frozen into mails, and their links lead nowhere for ever.
        return Err(SettingError::invalid(
            NAME,
            "must be the address of this Worker, not a placeholder under .invalid",
        ));
    }
    Ok(Some(url))
}

#[cfg(test)]
mod tests;

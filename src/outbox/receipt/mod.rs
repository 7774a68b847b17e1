//! A signed event of the provider, read: which mail it is about, what happened, when, and to whom.

mod named;
mod read;

pub use named::RECIPIENTS_MAX;
pub use read::{BODY_BYTES_MAX, read};

use super::address::Address;
use super::time::Millis;

/// What an event says about a mail. The words are those of the database column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// The provider keeps it for later.
    Scheduled,
    /// The provider took it and will try to deliver it.
    Sent,
    /// The receiving server asked to wait.
    Delayed,
    /// The receiving server took it.
    Delivered,
    /// Somebody, or their mail program, loaded a picture of it.
    Opened,
    /// Somebody followed a link in it.
    Clicked,
    /// The provider took it and could not send it.
    Failed,
    /// The provider took it and did not send it: the recipient is on its own list.
    Suppressed,
    /// The receiving server sent it back.
    Bounced,
    /// The recipient called it unwanted.
    Complained,
}

/// From this rank on news is bad and final: no better news undoes it.
const WORSE_FROM: u8 = 4;

impl News {
    /// All of them, by rank.
    pub const ALL: [Self; 10] = [
        Self::Scheduled,
        Self::Sent,
        Self::Delayed,
        Self::Delivered,
        Self::Opened,
        Self::Clicked,
        Self::Failed,
        Self::Suppressed,
        Self::Bounced,
        Self::Complained,
    ];

    /// The word of `receipts.news`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Sent => "sent",
            Self::Delayed => "delayed",
            Self::Delivered => "delivered",
            Self::Opened => "opened",
            Self::Clicked => "clicked",
            Self::Failed => "failed",
            Self::Suppressed => "suppressed",
            Self::Bounced => "bounced",
            Self::Complained => "complained",
        }
    }

    /// The word of `outbox.delivery`: who opened a mail, or followed its link, has it.
    pub const fn delivery(self) -> &'static str {
        match self {
            Self::Delivered | Self::Opened | Self::Clicked => Self::Delivered.as_str(),
            Self::Scheduled
            | Self::Sent
            | Self::Delayed
            | Self::Failed
            | Self::Suppressed
            | Self::Bounced
            | Self::Complained => self.as_str(),
        }
    }

    /// How much it weighs against other news of the same time; equal for all that have one word in `outbox.delivery`.
    pub const fn rank(self) -> u8 {
        match self {
            Self::Scheduled => 0,
            Self::Sent => 1,
            Self::Delayed => 2,
            Self::Delivered | Self::Opened | Self::Clicked => 3,
            Self::Failed => WORSE_FROM,
            Self::Suppressed => 5,
            Self::Bounced => 6,
            Self::Complained => 7,
        }
    }

    /// Whether it is bad and final, so that no better news undoes it, however late that happened.
    pub const fn is_worse(self) -> bool {
        self.rank() >= WORSE_FROM
    }
}

/// Of which kind a bounce is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BounceKind {
    /// The address will not take mail.
    Permanent,
    /// Another mail may get through.
    Transient,
    /// The provider does not know.
    Undetermined,
}

impl BounceKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Permanent, Self::Transient, Self::Undetermined];

    /// The word of `receipts.detail`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Permanent => "permanent",
            Self::Transient => "transient",
            Self::Undetermined => "undetermined",
        }
    }
}

/// Whom an event names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// Exactly one recipient.
    One(Address),
    /// Several, and the event does not say which of them it is about.
    Several,
    /// None that can be read.
    Nobody,
}

/// An event about one mail of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// What happened.
    pub news: News,
    /// Of a bounce: its kind.
    pub bounce: Option<BounceKind>,
    /// When it happened, by the provider's clock.
    pub at: Millis,
    /// The provider's id of the mail.
    pub message_id: String,
    /// The outbox id that the mail carries, in its tag or in its Message-ID.
    pub tagged_id: Option<String>,
    /// Whom it names.
    pub named: Named,
}

/// What an event's body turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// An event about a mail that is, or may be, ours.
    About(Receipt),
    /// About a mail that another environment sent.
    OtherEnvironment,
    /// About something that is no mail we sent: contacts, domains, received mail; or a kind of news that nobody here knows,
    /// about a mail that nothing says is ours.
    NotAboutAMail,
    /// Nobody here understands it: a code of ours says why.
    NotUnderstood(&'static str),
}

#[cfg(test)]
mod tests;

//! A signed event of the provider, read: which mail it is about, what happened, when, and to whom.

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
    pub message_id: Option<String>,
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
    /// About something that is no mail we sent: contacts, domains, received mail.
    NotAboutAMail,
    /// Nobody here understands it: a code of ours says why.
    NotUnderstood(&'static str),
}

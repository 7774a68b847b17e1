//! The states of an intent. The arrows between them are drawn in `docs/states.md`; each is one guarded UPDATE in
//! `store`.

use serde::Serialize;

/// Where an intent stands. The words are those of the database column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Committed; its publication is not recorded.
    Pending,
    /// The queue took its envelope.
    Enqueued,
    /// Claimed by a consumer until the claim's end.
    Processing,
    /// Waits for its next attempt.
    Retry,
    /// The provider gave a message id.
    Sent,
    /// The provider refused it for good, and every attempt is known not to have been accepted.
    Failed,
    /// The recipient must not be written to.
    Suppressed,
    /// Its window closed before it could leave.
    Expired,
    /// Called off by its producer.
    Canceled,
    /// Another system sent it.
    External,
    /// Its family ran in shadow mode: recorded, counted, never sent.
    Shadowed,
    /// Asks for a person: it cannot go on by itself, and nothing went out.
    DeadLetter,
    /// Asks for a person: nobody can know whether it went out.
    Unknown,
}

/// What a state means for the work that is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The pipeline still owes something.
    Open,
    /// Nothing is owed any more.
    Settled,
    /// A person has to decide.
    AsksForAPerson,
}

impl Status {
    /// Every state, in the order of the documentation.
    pub const ALL: [Self; 13] = [
        Self::Pending,
        Self::Enqueued,
        Self::Processing,
        Self::Retry,
        Self::Sent,
        Self::Failed,
        Self::Suppressed,
        Self::Expired,
        Self::Canceled,
        Self::External,
        Self::Shadowed,
        Self::DeadLetter,
        Self::Unknown,
    ];

    /// The state of this name.
    pub fn of(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// The word in the database and in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Enqueued => "enqueued",
            Self::Processing => "processing",
            Self::Retry => "retry",
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Suppressed => "suppressed",
            Self::Expired => "expired",
            Self::Canceled => "canceled",
            Self::External => "external",
            Self::Shadowed => "shadowed",
            Self::DeadLetter => "dead_letter",
            Self::Unknown => "unknown",
        }
    }

    /// Whether the pipeline, nobody or a person has the next word.
    pub const fn standing(self) -> Standing {
        match self {
            Self::Pending | Self::Enqueued | Self::Processing | Self::Retry => Standing::Open,
            Self::Sent
            | Self::Failed
            | Self::Suppressed
            | Self::Expired
            | Self::Canceled
            | Self::External
            | Self::Shadowed => Standing::Settled,
            Self::DeadLetter | Self::Unknown => Standing::AsksForAPerson,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_of_the_schema() {
        let schema = include_str!("../../migrations/0001_outbox.sql");
        for status in Status::ALL {
            assert!(
                schema.contains(&format!("'{}'", status.as_str())),
                "{status:?} is unknown to the schema"
            );
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
    }
}

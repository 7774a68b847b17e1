//! One call to the provider, as it is booked, and the rule of doubt.

use serde::Serialize;

/// How a closed attempt ended. The words are those of the database column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The provider gave a message id.
    Accepted,
    /// The provider refused this mail for good.
    Refused,
    /// The provider asked us to slow down.
    Throttled,
    /// The call was not made, or the provider turned it away at the door (key, domain).
    NotSent,
    /// Nobody can know: timeout, reset, 5xx, a success without a usable id.
    Ambiguous,
    /// The provider says that another request under the key is still running.
    InProgress,
    /// The provider knows the key with other bytes.
    PayloadConflict,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 7] = [
        Self::Accepted,
        Self::Refused,
        Self::Throttled,
        Self::NotSent,
        Self::Ambiguous,
        Self::InProgress,
        Self::PayloadConflict,
    ];

    /// The outcome of this name.
    pub fn of(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.as_str() == text)
    }

    /// The word in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Refused => "refused",
            Self::Throttled => "throttled",
            Self::NotSent => "not_sent",
            Self::Ambiguous => "ambiguous",
            Self::InProgress => "in_progress",
            Self::PayloadConflict => "payload_conflict",
        }
    }

    /// The rule of doubt: whether a mail may have gone out through this attempt (or, for the last two, through
    /// another request under its key). The triggers on `attempts` keep the same list.
    pub const fn leaves_doubt(self) -> bool {
        match self {
            Self::Ambiguous | Self::InProgress | Self::PayloadConflict => true,
            Self::Accepted | Self::Refused | Self::Throttled | Self::NotSent => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_triggers_keep_the_same_list_of_doubts() {
        let schema = include_str!("../../migrations/0002_hearing_back.sql");
        let doubts: Vec<String> = Outcome::ALL
            .iter()
            .filter(|outcome| outcome.leaves_doubt())
            .map(|outcome| format!("'{}'", outcome.as_str()))
            .collect();
        let clause = format!("a.outcome IS NULL OR a.outcome IN ({})", doubts.join(", "));
        assert_eq!(schema.matches(&clause).count(), 2, "{clause}");
    }
}

//! The provider window: how long the provider remembers a key, and so how long a doubtful mail may be repeated.

use core::time::Duration;

use super::time::Millis;

/// What the provider promises about keys, and how much of it we use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderWindow {
    /// How long a repeated request under its key is still recognised; zero where there are no keys.
    pub length: Duration,
    /// What we do not use of it: clocks differ, and a call takes time.
    pub margin: Duration,
}

/// Whether a doubtful mail may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repetition {
    /// The provider still knows the key until then.
    OpenUntil(Millis),
    /// The same request might be taken for a new one.
    Closed,
}

impl ProviderWindow {
    /// The part that is used; zero where the margin eats it up.
    pub fn usable(self) -> Duration {
        self.length.saturating_sub(self.margin)
    }

    /// Judges a mail whose key the provider may first have seen at `anchor`.
    pub fn judge(self, anchor: Millis, now: Millis) -> Repetition {
        let end = anchor.plus(self.usable());
        if now < end {
            Repetition::OpenUntil(end)
        } else {
            Repetition::Closed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: ProviderWindow = ProviderWindow {
        length: Duration::from_secs(24 * 3_600),
        margin: Duration::from_secs(3_600),
    };

    #[test]
    fn closes_one_margin_before_the_provider_forgets() {
        let anchor = Millis::new(1_000);
        let end = anchor.plus(Duration::from_secs(23 * 3_600));
        assert_eq!(
            WINDOW.judge(anchor, end.minus(Duration::from_millis(1))),
            Repetition::OpenUntil(end)
        );
        assert_eq!(WINDOW.judge(anchor, end), Repetition::Closed);
    }

    #[test]
    fn without_keys_nothing_doubtful_is_ever_repeated() {
        let none = ProviderWindow {
            length: Duration::ZERO,
            margin: Duration::from_secs(3_600),
        };
        assert_eq!(none.judge(Millis::new(5), Millis::new(5)), Repetition::Closed);
    }
}

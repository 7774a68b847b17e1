//! How long to wait before the next attempt: a pure function of how often it was tried and of a random number.

use core::time::Duration;

/// No wait between attempts is longer: a mail should leave within the hour after an outage ends.
pub const BACKOFF_CAP: Duration = Duration::from_secs(3_600);
/// Doublings after which the cap has long been reached; keeps the shift in range.
const DOUBLINGS_MAX: u32 = 16;

/// The wait after the `tries`-th failure (1 = the first): `base` doubled each time, at most [`BACKOFF_CAP`], and of
/// that a random part between one half and all of it, so that rows that failed together do not return together.
///
/// `random` is any number; only its distribution matters.
pub fn backoff(base: Duration, tries: u32, random: u64) -> Duration {
    let doublings = tries.saturating_sub(1).min(DOUBLINGS_MAX);
    let full = base.saturating_mul(1 << doublings).min(BACKOFF_CAP);
    let half_ms = u64::try_from(full.as_millis() / 2).unwrap_or(u64::MAX);
    Duration::from_millis(half_ms.saturating_add(random.checked_rem(half_ms.saturating_add(1)).unwrap_or(0)))
}

/// A wait that the provider named, spread by up to `base` so that all who were told the same do not return at once.
pub fn spread(named: Duration, base: Duration, random: u64) -> Duration {
    let base_ms = u64::try_from(base.as_millis()).unwrap_or(u64::MAX);
    named.saturating_add(Duration::from_millis(
        random.checked_rem(base_ms.saturating_add(1)).unwrap_or(0),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_cap_and_stays_within_its_half() {
        let base = Duration::from_secs(10);
        for (tries, full) in [
            (0, 10),
            (1, 10),
            (2, 20),
            (3, 40),
            (9, 2_560),
            (10, 3_600),
            (u32::MAX, 3_600),
        ] {
            assert_eq!(backoff(base, tries, 0), Duration::from_secs(full) / 2, "{tries}");
            let most = backoff(base, tries, full * 500);
            assert_eq!(most, Duration::from_secs(full), "{tries}");
        }
    }

    #[test]
    fn five_hundred_rows_do_not_return_together() {
        let mut waits: Vec<u128> = (0..500u64)
            .map(|row| backoff(Duration::from_secs(10), 1, row.wrapping_mul(0x9e37_79b9_7f4a_7c15)).as_millis())
            .collect();
        waits.sort_unstable();
        waits.dedup();
        assert!(waits.len() > 450, "{} different waits", waits.len());
    }
}

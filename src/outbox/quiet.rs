//! Quiet hours: when nothing is sent, by the clock on the recipient's wall.
//!
//! All of it is built on one question, how far a zone's clock is from UTC at an instant; who answers it is the caller's
//! business. Whether an instant is quiet is said by the local time of day alone. So hours that a clock skips do not
//! exist, and where quiet ones were to end in them the first instant afterwards is permitted; and hours that a clock
//! shows twice are quiet both times.

use super::time::Millis;

/// Bytes of a zone's name: the longest of the IANA database has 32.
pub const ZONE_BYTES_MAX: usize = 64;

/// The names of three letters that the IANA database has. Some platforms take others of their own, under which two people
/// may mean two zones: BST is London's summer to the one and Dhaka to the other.
const OF_THREE_LETTERS: [&str; 13] = [
    "CET", "EET", "EST", "GMT", "HST", "MET", "MST", "PRC", "ROC", "ROK", "UCT", "UTC", "WET",
];

/// Milliseconds of a minute.
const MINUTE_MS: i64 = 60_000;
/// Milliseconds of a day on a wall clock.
const DAY_MS: i64 = 86_400_000;
/// Changes of the clock that one search crosses: no zone makes more within a day.
const CHANGES_MAX: u32 = 4;

/// Whether a text may name a zone: an IANA name, an alias too, and no offset. Whether there is such a zone is the
/// platform's to say; what some platforms take and the IANA database does not have is refused here.
pub fn is_zone_name(text: &str) -> bool {
    let of_a_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'_' | b'-' | b'+');
    let is = |name: &&str| text.eq_ignore_ascii_case(name);
    text.len() <= ZONE_BYTES_MAX
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(of_a_name)
        && !["Etc/Unknown", "Factory"].iter().any(is)
        && !text
            .get(.."SystemV/".len())
            .is_some_and(|folder| folder.eq_ignore_ascii_case("SystemV/"))
        && (text.len() != 3 || OF_THREE_LETTERS.iter().any(is))
}

/// The first instant at `at` or later that is outside the quiet hours. `hours`: minutes since midnight, from (included)
/// until (excluded), over midnight where `from` is the later one; equal ones are never quiet. `offset`: seconds that the
/// zone's clock is ahead of UTC; `None`, here too, where there is no such zone.
pub fn next_permitted(hours: (u16, u16), at: Millis, offset: &dyn Fn(Millis) -> Option<i32>) -> Option<Millis> {
    let mut at = at.get();
    for _ in 0..CHANGES_MAX {
        let ahead = offset(Millis::new(at))?;
        let left = quiet_left(hours, at.saturating_add(i64::from(ahead).saturating_mul(1_000)));
        let end = at.saturating_add(left);
        if left == 0 || offset(Millis::new(end))? == ahead {
            return Some(Millis::new(end));
        }
        at = first_change(at, end, ahead, offset)?;
    }
    Some(Millis::new(at))
}

/// How long it is quiet from this local time on (ms) if nobody moves the clock; 0 where it is not.
fn quiet_left((from, until): (u16, u16), local_ms: i64) -> i64 {
    let [from, until] = [from, until].map(|minutes| i64::from(minutes).saturating_mul(MINUTE_MS));
    let length = until.saturating_sub(from).rem_euclid(DAY_MS);
    let gone = local_ms.saturating_sub(from).rem_euclid(DAY_MS);
    length.saturating_sub(gone).max(0)
}

/// The first millisecond after `before` at which the clock is no longer so far ahead; at `after` it is not.
fn first_change(before: i64, after: i64, ahead: i32, offset: &dyn Fn(Millis) -> Option<i32>) -> Option<i64> {
    let (mut before, mut after) = (before, after);
    while after.saturating_sub(before) > 1 {
        let middle = before.saturating_add(after.saturating_sub(before) / 2);
        if offset(Millis::new(middle))? == ahead {
            before = middle;
        } else {
            after = middle;
        }
    }
    Some(after)
}

#[cfg(test)]
mod tests;

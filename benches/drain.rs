//! 40,000 bulk mails that are due at once: `cargo bench --features cli --bench drain` (another number may follow `--`).
//!
//! Prints one line: the share of the set pace, what was never exceeded, round trips, rows visited and bytes of a round
//! trip. It fails where a mail is missing or went out twice, where a pace was exceeded, or where the last tenth costs more
//! than the first.

#![cfg(not(target_arch = "wasm32"))]
#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    reason = "the world of the path tests, of which this uses a part, and a native clock"
)]

#[path = "../tests/paths/support/mod.rs"]
mod support;

use support::{DOMAIN_PER_MINUTE, FAMILY_PER_MINUTE, PER_SECOND, release};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let count = std::env::args().find_map(|word| word.parse().ok()).unwrap_or(40_000);
    let began = std::time::Instant::now();
    let release = release(count).await;
    println!("{}", release.line());
    println!("{:.0} s on this machine, {}", began.elapsed().as_secs_f64(), memory());
    for (number, part) in release.parts.iter().enumerate() {
        println!(
            "tenth {}: {:.1} consumer round trips per 100 rows, {} rows visited per mail, {} kB in one round trip, {:.1} s",
            number + 1,
            release.consumer_per_100(part),
            part.visited / part.rows.max(1) as u64,
            part.largest / 1_000,
            part.took.as_secs_f64(),
        );
    }
    assert_eq!((release.unsent, release.twice), (0, 0), "each mail once");
    assert!(release.share() >= 0.95, "{:.3} of the pace", release.share());
    assert!(release.second <= PER_SECOND && release.minute <= 60 * PER_SECOND);
    assert!(release.family <= FAMILY_PER_MINUTE && release.domain <= DOMAIN_PER_MINUTE);
    assert!(
        release.most_queued <= 2 * 60 * PER_SECOND + 20,
        "{} queued",
        release.most_queued
    );
    let [first, .., last] = release.parts.as_slice() else {
        panic!("too few parts");
    };
    assert!(last.visited * 10 <= first.visited * 11, "{last:?} after {first:?}");
    assert!(last.largest * 10 <= first.largest * 11, "{last:?} after {first:?}");
}

/// The process with everything in it: the embedded engine, the provider's memory of each request, and the paths.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|line| line.starts_with("VmHWM"));
    peak.map_or_else(
        || "no figure of its memory".to_owned(),
        |line| line.split_whitespace().collect::<Vec<_>>().join(" "),
    )
}

//! A release of many bulk mails at once: it leaves at the set pace, whatever comes meanwhile, each mail once, and the last
//! ones cost what the first ones did. `benches/drain.rs` does the same with 40,000.

use std::time::Duration;

use crate::support::{DOMAIN_PER_MINUTE, FAMILY_PER_MINUTE, PER_SECOND, release};

#[tokio::test]
async fn two_thousand_bulk_mails_leave_at_the_pace_and_urgent_ones_overtake_them() {
    let release = release(2_000).await;
    println!("{}", release.line());
    assert_eq!((release.unsent, release.twice), (0, 0));
    assert_eq!(
        release.calls,
        release.rows + usize::try_from(release.ticks).expect("few"),
        "each once"
    );
    assert!(release.share() >= 0.95, "{:.3} of the pace", release.share());
    assert!(release.second <= PER_SECOND, "{} calls within a second", release.second);
    assert!(release.minute <= 60 * PER_SECOND, "{} within a minute", release.minute);
    assert!(release.family <= FAMILY_PER_MINUTE, "{} of the family", release.family);
    assert!(release.domain <= DOMAIN_PER_MINUTE, "{} of a domain", release.domain);
    assert!(release.urgent <= Duration::from_secs(20), "waited {:?}", release.urgent);
    assert!(
        release.most_queued <= 2 * 60 * PER_SECOND + 20,
        "{} queued",
        release.most_queued
    );
    for part in &release.parts {
        let per_100 = release.consumer_per_100(part);
        assert!(per_100 <= 6.0, "{per_100} round trips per 100 rows: {part:?}");
    }
    let [first, .., last] = release.parts.as_slice() else {
        panic!("too few parts");
    };
    assert!(last.visited <= first.visited, "{last:?} after {first:?}");
    assert!(last.largest * 10 <= first.largest * 11, "{last:?} after {first:?}");
}

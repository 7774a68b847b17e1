//! The request: what a donor's pledge leaves behind where nothing goes wrong, and where its process dies.

use crate::audit::{Facts, Finding};
use crate::platform::{DESIGNS, Design, Platform, Reply, pledge};
use crate::support::Wire;

fn never_announced() -> Vec<Finding> {
    vec![Finding::NeverAnnounced("p-1".to_owned())]
}

fn ghost() -> Vec<Finding> {
    vec![Finding::Ghost("p-1".to_owned())]
}

/// As long as nothing dies, nobody can tell the designs apart; and turns of the relay that find nothing to do send
/// nothing again.
#[tokio::test]
async fn an_undisturbed_pledge_is_announced_and_matched_once_in_every_design() {
    for design in DESIGNS {
        let platform = Platform::new(design).await;
        assert_eq!(platform.pledge(&pledge(1)).await, Reply::Recorded, "{design:?}");
        platform.settle().await;
        platform.settle().await;
        assert_eq!(
            platform.facts().await.to_string(),
            "pledges [p-1], messages [msg-1], matched 5000 -> consistent",
            "{design:?}"
        );
    }
}

/// One pledge whose process dies straight after its first write, and one that goes through.
async fn a_death_and_a_pledge(design: Design) -> Facts {
    let platform = Platform::new(design).await;
    platform.pledge_and_die(&pledge(1)).await;
    assert_eq!(platform.pledge(&pledge(2)).await, Reply::Recorded);
    platform.settle().await;
    platform.facts().await
}

async fn the_outbox_tells_both() {
    let facts = a_death_and_a_pledge(Design::Outbox).await;
    assert!(facts.all_told_once(&["p-1", "p-2"].map(str::to_owned)), "{facts}");
    assert_eq!(facts.cents, 10_000);
}

/// The next pledge goes through, and still nobody comes back to the first one.
#[tokio::test]
async fn a_death_after_the_save_leaves_a_pledge_that_nobody_hears_of() {
    let facts = a_death_and_a_pledge(Design::SaveThenPublish).await;
    assert_eq!(facts.findings(), never_announced());
    assert_eq!(facts.pledges, ["p-1", "p-2"]);
    assert_eq!((facts.matched, facts.cents), (vec!["p-2".to_owned()], 5_000));
    the_outbox_tells_both().await;
}

#[tokio::test]
async fn a_death_after_the_announcement_leaves_a_match_for_a_pledge_that_does_not_exist() {
    let facts = a_death_and_a_pledge(Design::PublishThenSave).await;
    assert_eq!(facts.findings(), ghost());
    assert_eq!(facts.pledges, ["p-2"]);
    assert_eq!(facts.cents, 10_000, "the fund paid for both");
    the_outbox_tells_both().await;
}

/// The donor never got an answer. The row is there, the relay finds it; and the donor who asks again is told of the
/// same intent, not of a second one.
#[tokio::test]
async fn a_death_after_the_commit_delays_the_announcement_and_loses_nothing() {
    let platform = Platform::new(Design::Outbox).await;
    platform.pledge_and_die(&pledge(1)).await;
    let after_death = platform.facts().await;
    assert_eq!((after_death.pledges.len(), after_death.messages.len()), (1, 0));
    let repeated = platform.record(&[pledge(1)]).await.expect("the donor asks again");
    assert!(repeated.receipts[0].duplicate);
    assert!(repeated.to_publish.is_empty(), "the row is the relay's already");
    platform.settle().await;
    assert_eq!(
        platform.facts().await.to_string(),
        "pledges [p-1], messages [msg-1], matched 5000 -> consistent"
    );
}

/// Here the pledge and its message are one row with its keys and its letter, so half of the transaction would be a row
/// without one of these. Whether the process dies on its way to the commit, the database refuses it, or a statement in
/// the middle fails: nothing is there. The design that has announced already stands there with a ghost, and needs no
/// crash for it.
#[tokio::test]
async fn a_transaction_that_does_not_commit_leaves_neither_pledge_nor_message() {
    let platform = Platform::new(Design::Outbox).await;
    assert_eq!(platform.pledge_and_die_at(&pledge(1), 1).await, None);
    platform.world.transport.always(Some(Wire::Refuse));
    assert_eq!(platform.pledge(&pledge(1)).await, Reply::Failed);
    platform.world.transport.always(None);
    let breaks_late = "CREATE TRIGGER break_late BEFORE INSERT ON letters BEGIN SELECT raise(ABORT, 'broken'); END";
    platform.world.sql(breaks_late, Vec::new()).await;
    assert_eq!(platform.pledge(&pledge(1)).await, Reply::Failed);
    platform.world.sql("DROP TRIGGER break_late", Vec::new()).await;
    let left = "SELECT id FROM outbox UNION ALL SELECT key FROM intent_keys UNION ALL SELECT outbox_id FROM letters";
    assert!(platform.world.sql(left, Vec::new()).await.is_empty());
    platform.settle().await;
    assert!(platform.facts().await.messages.is_empty());
    // The same hands, and the pledge goes through: it was the faults that stopped it.
    assert_eq!(platform.pledge(&pledge(1)).await, Reply::Recorded);

    for (design, findings) in [
        (Design::SaveThenPublish, Vec::new()),
        (Design::PublishThenSave, ghost()),
    ] {
        let platform = Platform::new(design).await;
        platform.world.transport.next_with("kept_pledges", Wire::Refuse);
        assert_eq!(platform.pledge(&pledge(1)).await, Reply::Failed, "{design:?}");
        platform.settle().await;
        let facts = platform.facts().await;
        assert!(facts.pledges.is_empty(), "{design:?}");
        assert_eq!(facts.findings(), findings, "{design:?}");
    }
}

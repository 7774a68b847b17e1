//! The example in six lines, each from a run of its own; and the proof that the audit can fail.

use crate::audit::Finding;
use crate::platform::{AWAITS_MAX, DESIGNS, Design, Platform, pledge};

async fn died_between_the_writes(design: Design) -> Platform {
    let platform = Platform::new(design).await;
    platform.pledge_and_die(&pledge(1)).await;
    platform.settle().await;
    platform
}

async fn broker_was_down(design: Design) -> Platform {
    let platform = Platform::new(design).await;
    platform.world.broker.refuse(true);
    platform.pledge(&pledge(1)).await;
    platform.relay_turn().await;
    platform.world.broker.refuse(false);
    platform.settle().await;
    platform
}

async fn relay_stopped(design: Design) -> Platform {
    let platform = Platform::new(design).await;
    platform.pledge(&pledge(1)).await;
    assert!(platform.relay_dies(|| platform.ear.count() > 0).await);
    platform.settle().await;
    platform
}

async fn line(what: &str, platform: Platform) -> String {
    format!("{} · {what}: {}", platform.design.name(), platform.facts().await)
}

async fn table() -> Vec<String> {
    let between = "crash between the writes";
    let down = "broker down, then up";
    vec![
        line(between, died_between_the_writes(Design::SaveThenPublish).await).await,
        line(between, died_between_the_writes(Design::PublishThenSave).await).await,
        line("crash after the commit", died_between_the_writes(Design::Outbox).await).await,
        line(down, broker_was_down(Design::SaveThenPublish).await).await,
        line(down, broker_was_down(Design::Outbox).await).await,
        line("relay stops, runs again", relay_stopped(Design::Outbox).await).await,
    ]
}

#[tokio::test]
async fn the_example_ends_in_these_six_lines() {
    let lines = table().await;
    for line in &lines {
        println!("{line}");
    }
    assert_eq!(
        lines,
        [
            "save-then-publish · crash between the writes: pledges [p-1], messages [], matched 0 -> never-announced:p-1",
            "publish-then-save · crash between the writes: pledges [], messages [msg-1], matched 5000 -> ghost:p-1",
            "outbox · crash after the commit: pledges [p-1], messages [msg-1], matched 5000 -> consistent",
            "save-then-publish · broker down, then up: pledges [p-1], messages [], matched 0 -> never-announced:p-1",
            "outbox · broker down, then up: pledges [p-1], messages [msg-1], matched 5000 -> consistent",
            "outbox · relay stops, runs again: pledges [p-1], messages [msg-1 msg-1], matched 5000 -> consistent",
        ]
    );
}

/// What the audit finds after a death at each await of a request in turn, once everything has settled.
async fn findings_of_every_death(design: Design) -> Vec<Finding> {
    let mut findings = Vec::new();
    for at in 1..AWAITS_MAX {
        let platform = Platform::new(design).await;
        let died = platform.pledge_and_die_at(&pledge(1), at).await.is_none();
        platform.settle().await;
        findings.extend(platform.facts().await.findings());
        if !died {
            assert!(at > 2, "{design:?}: the request has awaits to die at");
            return findings;
        }
    }
    panic!("{design:?}: a request of more than {AWAITS_MAX} awaits");
}

/// One audit for all three: it finds the fault of either dual write, that fault alone, and nothing in the outbox.
#[tokio::test]
async fn the_audit_that_passes_the_outbox_catches_both_dual_writes() {
    for design in DESIGNS {
        let findings = findings_of_every_death(design).await;
        match design {
            Design::SaveThenPublish => {
                assert!(!findings.is_empty(), "the audit can fail");
                assert!(
                    findings
                        .iter()
                        .all(|finding| *finding == Finding::NeverAnnounced("p-1".to_owned())),
                    "{findings:?}"
                );
            }
            Design::PublishThenSave => {
                assert!(!findings.is_empty(), "the audit can fail");
                assert!(
                    findings
                        .iter()
                        .all(|finding| *finding == Finding::Ghost("p-1".to_owned())),
                    "{findings:?}"
                );
            }
            Design::Outbox => assert_eq!(findings, [], "nothing is lost at any await"),
        }
    }
}

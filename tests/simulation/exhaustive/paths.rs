//! The paths, and the states that they find.

use super::Path;
use crate::oracle::Role;
use crate::script::Io;
use crate::setting::{BATCH_FAMILY, Fact, HELD_FAMILY, Profile, START_MS, fact_of};
use crate::stage::{LOST_ANSWER, REFUSED, Stage};

const ALWAYS: (Option<i64>, Option<i64>) = (None, None);
/// A message that nobody understands.
const STRANGE: &str = "hello";
/// An envelope of a row that never was.
const ORPHAN: &str = r#"{"kind":"sealpost-outbox","version":1,"outboxId":"ntc_00000000000000000000000000"}"#;

fn notices(count: u32) -> Vec<Fact> {
    (0..count)
        .map(|number| fact_of(number, "notice", ALWAYS, true))
        .collect()
}

fn one() -> Vec<Fact> {
    notices(1)
}

fn one_invitation() -> Vec<Fact> {
    vec![fact_of(0, "invitation", ALWAYS, true)]
}

/// The first one has attachments.
fn three() -> Vec<Fact> {
    vec![
        fact_of(0, "report", ALWAYS, true),
        fact_of(1, "notice", ALWAYS, true),
        fact_of(2, "invitation", ALWAYS, true),
    ]
}

/// Mails that go out together.
fn together() -> Vec<Fact> {
    (0..3)
        .map(|number| fact_of(number, BATCH_FAMILY, ALWAYS, true))
        .collect()
}

fn five() -> Vec<Fact> {
    notices(5)
}

/// Good, unreadable, soon over, and to be suppressed.
fn mixed() -> Vec<Fact> {
    vec![
        fact_of(0, "notice", ALWAYS, true),
        fact_of(1, "invitation", ALWAYS, false),
        fact_of(2, "notice", (None, Some(START_MS + 60_000)), true),
        fact_of(3, "notice", ALWAYS, true),
    ]
}

/// One for each state that the relay finds.
fn for_the_relay() -> Vec<Fact> {
    let mut facts = notices(5);
    facts.push(fact_of(5, HELD_FAMILY, ALWAYS, true));
    facts.push(fact_of(6, "invitation", ALWAYS, true));
    facts.push(fact_of(7, "notice", (None, Some(START_MS + 120_000)), true));
    facts
}

fn nothing(_: &Stage) {}

const DATABASE_AND_CALL: &[(Io, usize)] = &[(Io::Database, 3), (Io::Provider, 1), (Io::Acknowledge, 1)];

pub const ALL: &[Path] = &[
    Path {
        name: "intake, one fact",
        profile: Profile::Usual,
        facts: one,
        prepare: nothing,
        go: |stage| stage.state(&[0]),
        role: Role::Intake,
        invocations: 1,
        at_least: &[(Io::Database, 2), (Io::Queue, 1)],
        pairs: true,
    },
    Path {
        name: "intake, three facts, one of them known",
        profile: Profile::Usual,
        facts: three,
        prepare: |stage| stage.enqueued(&[1]),
        go: |stage| stage.state(&[0, 1, 2]),
        role: Role::Intake,
        invocations: 1,
        at_least: &[(Io::Database, 2), (Io::Queue, 1)],
        pairs: false,
    },
    Path {
        name: "intake, a repetition races",
        profile: Profile::Usual,
        facts: one,
        prepare: nothing,
        go: |stage| {
            stage.state(&[0]);
            stage.state(&[0]);
        },
        role: Role::Intake,
        invocations: 2,
        at_least: &[(Io::Database, 3), (Io::Queue, 1)],
        pairs: false,
    },
    Path {
        name: "consumer, a fresh row",
        profile: Profile::Usual,
        facts: one_invitation,
        prepare: |stage| stage.enqueued(&[0]),
        go: |stage| {
            stage.consumer(&[0], &[]);
        },
        role: Role::Consumer,
        invocations: 1,
        at_least: DATABASE_AND_CALL,
        pairs: true,
    },
    Path {
        name: "consumer, three fresh rows",
        profile: Profile::Usual,
        facts: three,
        prepare: |stage| stage.enqueued(&[0, 1, 2]),
        go: |stage| {
            stage.consumer(&[0, 1, 2], &[]);
        },
        role: Role::Consumer,
        invocations: 1,
        at_least: &[(Io::Database, 3), (Io::Provider, 3), (Io::Acknowledge, 1)],
        pairs: false,
    },
    Path {
        name: "consumer, mails that go out together",
        profile: Profile::Usual,
        facts: together,
        prepare: |stage| stage.enqueued(&[0, 1, 2]),
        go: |stage| {
            stage.consumer(&[0, 1, 2], &[]);
        },
        role: Role::Consumer,
        invocations: 1,
        at_least: DATABASE_AND_CALL,
        pairs: true,
    },
    Path {
        name: "consumer, a batch in doubt, one message of it",
        profile: Profile::Usual,
        facts: together,
        prepare: |stage| stage.called(&[0, 1, 2], LOST_ANSWER),
        go: |stage| {
            stage.consumer(&[1], &[]);
        },
        role: Role::Consumer,
        invocations: 1,
        at_least: DATABASE_AND_CALL,
        pairs: true,
    },
    Path {
        name: "consumer, a batch in doubt with somebody who is suppressed now",
        profile: Profile::Usual,
        facts: together,
        prepare: |stage| {
            stage.called(&[0, 1, 2], LOST_ANSWER);
            let fact = stage.fact(2);
            stage.sim.suppress(&fact);
        },
        go: |stage| {
            stage.consumer(&[0, 1], &[]);
        },
        role: Role::Consumer,
        invocations: 1,
        at_least: &[(Io::Database, 1), (Io::Acknowledge, 1)],
        pairs: false,
    },
    Path {
        name: "consumer, a batch that was refused",
        profile: Profile::Usual,
        facts: together,
        prepare: |stage| stage.called(&[0, 1, 2], REFUSED),
        go: |stage| {
            stage.consumer(&[0, 1, 2], &[]);
        },
        role: Role::Consumer,
        invocations: 1,
        at_least: &[(Io::Database, 3), (Io::Provider, 3), (Io::Acknowledge, 1)],
        pairs: false,
    },
    Path {
        name: "consumer, a retry in doubt",
        profile: Profile::Usual,
        facts: one_invitation,
        prepare: |stage| stage.called(&[0], LOST_ANSWER),
        go: |stage| {
            stage.consumer(&[0], &[]);
        },
        role: Role::Consumer,
        invocations: 1,
        at_least: DATABASE_AND_CALL,
        pairs: true,
    },
    Path {
        name: "consumer, a suspect: its worker died",
        profile: Profile::Short,
        facts: one_invitation,
        prepare: |stage| {
            stage.claimed(&[0]);
            stage.until_claims_end(&[0]);
        },
        go: |stage| {
            stage.consumer(&[0], &[]);
        },
        role: Role::Consumer,
        invocations: 1,
        at_least: &[(Io::Database, 4), (Io::Provider, 1), (Io::Acknowledge, 1)],
        pairs: true,
    },
    Path {
        name: "consumer, a suspect that was put aside",
        profile: Profile::Short,
        facts: one_invitation,
        prepare: |stage| {
            stage.claimed(&[0]);
            stage.until_claims_end(&[0]);
            stage.sim.pause("invitation", 60_000);
            stage.consumer(&[0], &[]);
            stage.wait(3_000);
            stage.sim.main.take();
            stage.are(&[0], "retry");
            stage.until_due(&[0]);
        },
        go: |stage| {
            stage.consumer(&[0], &[]);
        },
        role: Role::Consumer,
        invocations: 1,
        at_least: &[(Io::Database, 4), (Io::Provider, 1), (Io::Acknowledge, 1)],
        pairs: false,
    },
    Path {
        name: "consumer, another's claim ended without a call",
        profile: Profile::Short,
        facts: one_invitation,
        prepare: |stage| {
            stage.only_claimed(&[0]);
            stage.until_claims_end(&[0]);
        },
        go: |stage| {
            stage.consumer(&[0], &[]);
        },
        role: Role::Consumer,
        invocations: 1,
        at_least: &[(Io::Database, 4), (Io::Provider, 1), (Io::Acknowledge, 1)],
        pairs: true,
    },
    Path {
        name: "consumer, another's claim is alive",
        profile: Profile::Short,
        facts: one,
        prepare: |stage| stage.claimed(&[0]),
        go: |stage| {
            stage.consumer(&[0], &[]);
        },
        role: Role::Consumer,
        invocations: 1,
        at_least: &[(Io::Database, 1), (Io::Acknowledge, 1)],
        pairs: true,
    },
    Path {
        name: "consumer, good and unreadable, expired, suppressed",
        profile: Profile::Usual,
        facts: mixed,
        prepare: |stage| {
            stage.enqueued(&[0, 1, 2, 3]);
            stage.wait(61_000);
            let fact = stage.fact(3);
            stage.sim.suppress(&fact);
        },
        go: |stage| {
            stage.consumer(&[0, 1, 2, 3], &[]);
        },
        role: Role::Consumer,
        invocations: 1,
        at_least: DATABASE_AND_CALL,
        pairs: false,
    },
    Path {
        name: "consumer, strange messages among good ones",
        profile: Profile::Usual,
        facts: three,
        prepare: |stage| stage.enqueued(&[0, 1]),
        go: |stage| {
            stage.consumer(&[0, 1], &[STRANGE, ORPHAN]);
        },
        role: Role::Consumer,
        invocations: 1,
        at_least: &[(Io::Database, 5), (Io::Provider, 2), (Io::Acknowledge, 1)],
        pairs: false,
    },
    Path {
        name: "consumer, waves: a provider without keys",
        profile: Profile::WindowZero,
        facts: five,
        prepare: |stage| stage.enqueued(&[0, 1, 2, 3, 4]),
        go: |stage| {
            stage.consumer(&[0, 1, 2, 3, 4], &[]);
        },
        role: Role::Consumer,
        invocations: 1,
        at_least: &[(Io::Database, 5), (Io::Provider, 5), (Io::Acknowledge, 1)],
        pairs: false,
    },
    Path {
        name: "consumer, one row, a provider without keys",
        profile: Profile::WindowZero,
        facts: one,
        prepare: |stage| stage.enqueued(&[0]),
        go: |stage| {
            stage.consumer(&[0], &[]);
        },
        role: Role::Consumer,
        invocations: 1,
        at_least: DATABASE_AND_CALL,
        pairs: true,
    },
    Path {
        name: "consumer, paced",
        profile: Profile::Paced,
        facts: five,
        prepare: |stage| stage.enqueued(&[0, 1, 2, 3, 4]),
        go: |stage| {
            stage.consumer(&[0, 1, 2, 3, 4], &[]);
        },
        role: Role::Consumer,
        invocations: 1,
        at_least: &[
            (Io::Database, 3),
            (Io::Provider, 5),
            (Io::Sleep, 4),
            (Io::Acknowledge, 1),
        ],
        pairs: false,
    },
    Path {
        name: "relay, a row that is still pending",
        profile: Profile::Usual,
        facts: one,
        prepare: |stage| {
            stage.pending(&[0]);
            stage.are(&[0], "pending");
            stage.until_relay(&[0]);
        },
        go: |stage| {
            stage.tick();
        },
        role: Role::Relay,
        invocations: 1,
        at_least: &[(Io::Database, 4), (Io::Queue, 1)],
        pairs: true,
    },
    Path {
        name: "relay, a row in every state that it finds",
        profile: Profile::Short,
        facts: for_the_relay,
        prepare: |stage| {
            stage.called(&[1], LOST_ANSWER);
            stage.claimed(&[3]);
            stage.enqueued(&[2]);
            stage.pending(&[0, 5, 6, 7]);
            stage.only_claimed(&[4]);
            stage.until_relay(&[0, 1, 2, 3, 4, 6, 7]);
            stage.sim.pause("invitation", 3_600_000);
        },
        go: |stage| {
            stage.tick();
        },
        role: Role::Relay,
        invocations: 1,
        at_least: &[(Io::Database, 4), (Io::Queue, 1)],
        pairs: false,
    },
    Path {
        name: "relay, something to prune",
        profile: Profile::Usual,
        facts: three,
        prepare: |stage| {
            stage.enqueued(&[0, 2]);
            stage.consumer(&[0, 2], &[]);
            stage.wait(9 * 86_400_000);
            stage.are(&[0, 2], "sent");
            stage.enqueued(&[1]);
            stage.until_relay(&[1]);
        },
        go: |stage| {
            stage.tick();
        },
        role: Role::Relay,
        invocations: 1,
        at_least: &[(Io::Database, 4), (Io::Queue, 1)],
        pairs: false,
    },
    Path {
        name: "dead letters, open, settled, claimed and strange",
        profile: Profile::Short,
        facts: three,
        prepare: |stage| {
            stage.enqueued(&[1]);
            stage.consumer(&[1], &[]);
            stage.wait(3_000);
            stage.are(&[1], "sent");
            stage.claimed(&[2]);
            stage.enqueued(&[0]);
        },
        go: |stage| {
            stage.dead_letter_consumer(&[0, 1, 2], &[STRANGE, ORPHAN]);
        },
        role: Role::DeadLetters,
        invocations: 1,
        at_least: &[(Io::Database, 3), (Io::Acknowledge, 1)],
        pairs: false,
    },
    Path {
        name: "dead letters, an open row",
        profile: Profile::Usual,
        facts: one,
        prepare: |stage| stage.enqueued(&[0]),
        go: |stage| {
            stage.dead_letter_consumer(&[0], &[]);
        },
        role: Role::DeadLetters,
        invocations: 1,
        at_least: &[(Io::Database, 1), (Io::Acknowledge, 1)],
        pairs: true,
    },
    Path {
        name: "an event, a retry in doubt",
        profile: Profile::Usual,
        facts: one,
        prepare: |stage| stage.called(&[0], LOST_ANSWER),
        go: |stage| stage.tell(0, "complained", true),
        role: Role::Receipts,
        invocations: 1,
        at_least: &[(Io::Database, 1)],
        pairs: true,
    },
    Path {
        name: "an event, its worker died after the acceptance",
        profile: Profile::Short,
        facts: one,
        prepare: |stage| {
            stage.enqueued(&[0]);
            stage.claimed_after_acceptance(&[0]);
        },
        go: |stage| stage.tell(0, "bounced", true),
        role: Role::Receipts,
        invocations: 1,
        at_least: &[(Io::Database, 1)],
        pairs: true,
    },
    Path {
        name: "an event without our id, which waits for the answer's repetition",
        profile: Profile::Usual,
        facts: one,
        prepare: |stage| stage.called(&[0], LOST_ANSWER),
        go: |stage| stage.tell(0, "bounced", false),
        role: Role::Receipts,
        invocations: 1,
        at_least: &[(Io::Database, 1)],
        pairs: false,
    },
    Path {
        name: "send again",
        profile: Profile::WindowZero,
        facts: one,
        prepare: |stage| stage.unknown(&[0]),
        go: |stage| stage.judge(0, r#"{"verdict":"send_again","note":"it matters"}"#),
        role: Role::People,
        invocations: 1,
        at_least: &[(Io::Database, 1), (Io::Queue, 1)],
        pairs: true,
    },
    Path {
        name: "an unsubscription",
        profile: Profile::Usual,
        facts: one,
        prepare: |stage| stage.enqueued(&[0]),
        go: |stage| stage.click(0),
        role: Role::People,
        invocations: 1,
        at_least: &[(Io::Database, 1)],
        pairs: true,
    },
    Path {
        name: "a retry of a dead letter",
        profile: Profile::Usual,
        facts: || vec![fact_of(0, "invitation", ALWAYS, false)],
        prepare: |stage| {
            stage.enqueued(&[0]);
            stage.consumer(&[0], &[]);
            stage.wait(3_000);
            stage.sim.main.take();
            stage.are(&[0], "dead_letter");
        },
        go: |stage| stage.retry_dead(),
        role: Role::People,
        invocations: 1,
        at_least: &[(Io::Database, 1)],
        pairs: true,
    },
];

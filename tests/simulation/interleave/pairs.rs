//! Which two, over a row in which state.

use super::Pair;
use crate::setting::{Fact, Profile, START_MS, fact_of};
use crate::stage::{LOST_ANSWER, Stage};

fn one() -> Vec<Fact> {
    vec![fact_of(0, "invitation", (None, None), true)]
}

/// It is over two minutes after the start.
fn one_with_an_end() -> Vec<Fact> {
    vec![fact_of(0, "invitation", (None, Some(START_MS + 120_000)), true)]
}

fn two_consumers(stage: &Stage) {
    stage.consumer(&[0], &[]);
    stage.consumer(&[0], &[]);
}

fn consumer_and_tick(stage: &Stage) {
    stage.consumer(&[0], &[]);
    stage.tick();
}

fn consumer_and_dead_letters(stage: &Stage) {
    stage.consumer(&[0], &[]);
    stage.dead_letter_consumer(&[0], &[]);
}

fn dead_worker(stage: &Stage) {
    stage.claimed(&[0]);
    stage.until_claims_end(&[0]);
}

fn overdue(stage: &Stage) {
    stage.pending(&[0]);
    stage.until_relay(&[0]);
}

pub const ALL: &[Pair] = &[
    Pair {
        name: "two consumers, a fresh row",
        profile: Profile::Usual,
        facts: one,
        prepare: |stage| stage.enqueued(&[0]),
        go: two_consumers,
        calls: true,
        at_least: 100,
    },
    Pair {
        name: "two consumers, a retry in doubt",
        profile: Profile::Usual,
        facts: one,
        prepare: |stage| stage.called(&[0], LOST_ANSWER),
        go: two_consumers,
        calls: true,
        at_least: 100,
    },
    Pair {
        name: "two consumers, a suspect",
        profile: Profile::Short,
        facts: one,
        prepare: dead_worker,
        go: two_consumers,
        calls: true,
        at_least: 100,
    },
    Pair {
        name: "two consumers, a provider without keys",
        profile: Profile::WindowZero,
        facts: one,
        prepare: |stage| stage.enqueued(&[0]),
        go: two_consumers,
        calls: true,
        at_least: 100,
    },
    Pair {
        name: "two consumers, the row is over soon",
        profile: Profile::Short,
        facts: one_with_an_end,
        prepare: |stage| {
            stage.enqueued(&[0]);
            stage.wait(100_000);
        },
        go: two_consumers,
        calls: true,
        at_least: 100,
    },
    Pair {
        name: "consumer and relay, a row that is still pending",
        profile: Profile::Usual,
        facts: one,
        prepare: overdue,
        go: consumer_and_tick,
        calls: true,
        at_least: 100,
    },
    Pair {
        name: "consumer and relay, a retry in doubt",
        profile: Profile::Usual,
        facts: one,
        prepare: |stage| {
            stage.called(&[0], LOST_ANSWER);
            stage.until_relay(&[0]);
        },
        go: consumer_and_tick,
        calls: true,
        at_least: 100,
    },
    Pair {
        name: "consumer and relay, a suspect",
        profile: Profile::Short,
        facts: one,
        prepare: |stage| {
            dead_worker(stage);
            stage.until_relay(&[0]);
        },
        go: consumer_and_tick,
        calls: true,
        at_least: 100,
    },
    Pair {
        name: "consumer and relay, the recipient is suppressed",
        profile: Profile::Usual,
        facts: one,
        prepare: |stage| {
            overdue(stage);
            let fact = stage.fact(0);
            stage.sim.suppress(&fact);
        },
        go: consumer_and_tick,
        calls: false,
        at_least: 10,
    },
    Pair {
        name: "consumer and dead-letter consumer, a fresh row",
        profile: Profile::Usual,
        facts: one,
        prepare: |stage| stage.enqueued(&[0]),
        go: consumer_and_dead_letters,
        calls: true,
        at_least: 40,
    },
    Pair {
        name: "consumer and dead-letter consumer, a retry in doubt",
        profile: Profile::Usual,
        facts: one,
        prepare: |stage| stage.called(&[0], LOST_ANSWER),
        go: consumer_and_dead_letters,
        calls: true,
        at_least: 40,
    },
    Pair {
        name: "relay and dead-letter consumer, a row that is pending",
        profile: Profile::Usual,
        facts: one,
        prepare: overdue,
        go: |stage| {
            stage.tick();
            stage.dead_letter_consumer(&[0], &[]);
        },
        calls: false,
        at_least: 10,
    },
    Pair {
        name: "two ticks, a row that is still pending",
        profile: Profile::Usual,
        facts: one,
        prepare: overdue,
        go: |stage| {
            stage.tick();
            stage.tick();
        },
        calls: false,
        at_least: 30,
    },
    Pair {
        name: "two intakes of one fact",
        profile: Profile::Usual,
        facts: one,
        prepare: |_| {},
        go: |stage| {
            stage.state(&[0]);
            stage.state(&[0]);
        },
        calls: false,
        at_least: 10,
    },
    Pair {
        name: "consumer and an event, a retry in doubt",
        profile: Profile::Usual,
        facts: one,
        prepare: |stage| stage.called(&[0], LOST_ANSWER),
        go: |stage| {
            stage.consumer(&[0], &[]);
            stage.tell(0, "complained", true);
        },
        calls: true,
        at_least: 10,
    },
    Pair {
        name: "consumer and an event without our id, a retry in doubt",
        profile: Profile::Usual,
        facts: one,
        prepare: |stage| stage.called(&[0], LOST_ANSWER),
        go: |stage| {
            stage.consumer(&[0], &[]);
            stage.tell(0, "bounced", false);
        },
        calls: true,
        at_least: 10,
    },
    Pair {
        name: "consumer and an event, the window is over",
        profile: Profile::WindowZero,
        facts: one,
        prepare: |stage| {
            stage.enqueued(&[0]);
            stage.claimed_after_acceptance(&[0]);
            stage.until_claims_end(&[0]);
        },
        go: |stage| {
            stage.consumer(&[0], &[]);
            stage.tell(0, "delivered", true);
        },
        calls: false,
        at_least: 6,
    },
    Pair {
        name: "relay and an event, a retry in doubt",
        profile: Profile::Usual,
        facts: one,
        prepare: |stage| {
            stage.called(&[0], LOST_ANSWER);
            stage.until_relay(&[0]);
        },
        go: |stage| {
            stage.tick();
            stage.tell(0, "delivered", true);
        },
        calls: false,
        at_least: 6,
    },
    Pair {
        name: "two events of one mail, a retry in doubt",
        profile: Profile::Usual,
        facts: one,
        prepare: |stage| stage.called(&[0], LOST_ANSWER),
        go: |stage| {
            stage.tell(0, "bounced", true);
            stage.tell(0, "delivered", true);
        },
        calls: false,
        at_least: 2,
    },
    Pair {
        name: "intake's mark and a consumer",
        profile: Profile::Usual,
        facts: one,
        prepare: |_| {},
        go: |stage| {
            stage.state(&[0]);
            // Until the message is stored, nobody else is there.
            while stage.sim.main.len() == 0 {
                stage.sim.kernel.step();
            }
            stage.sim.main.take();
            stage.consumer(&[0], &[]);
        },
        calls: true,
        at_least: 20,
    },
    Pair {
        name: "intake's mark and the relay",
        profile: Profile::Usual,
        facts: one,
        prepare: |_| {},
        go: |stage| {
            stage.state(&[0]);
            while stage.sim.main.len() == 0 {
                stage.sim.kernel.step();
            }
            // It stood still for longer than its reservation.
            stage.sim.kernel.stand_still(60_000);
            stage.tick();
        },
        calls: false,
        at_least: 6,
    },
    Pair {
        name: "two clicks on send again",
        profile: Profile::WindowZero,
        facts: one,
        prepare: |stage| stage.unknown(&[0]),
        go: |stage| {
            stage.judge(0, SEND_AGAIN);
            stage.judge(0, SEND_AGAIN);
        },
        calls: false,
        at_least: 6,
    },
    Pair {
        name: "send again and an event that proves the mail",
        profile: Profile::WindowZero,
        facts: one,
        prepare: |stage| stage.unknown(&[0]),
        go: |stage| {
            stage.judge(0, SEND_AGAIN);
            stage.tell(0, "delivered", true);
        },
        calls: false,
        at_least: 6,
    },
    Pair {
        name: "a click and a consumer, a fresh row",
        profile: Profile::Usual,
        facts: one,
        prepare: |stage| stage.enqueued(&[0]),
        go: |stage| {
            stage.consumer(&[0], &[]);
            stage.click(0);
        },
        calls: true,
        at_least: 6,
    },
    Pair {
        name: "a click and a consumer, a retry in doubt",
        profile: Profile::Usual,
        facts: one,
        prepare: |stage| stage.called(&[0], LOST_ANSWER),
        go: |stage| {
            stage.consumer(&[0], &[]);
            stage.click(0);
        },
        calls: true,
        at_least: 6,
    },
    Pair {
        name: "two retries of a dead letter",
        profile: Profile::Usual,
        facts: one_unreadable,
        prepare: dead_letter,
        go: |stage| {
            stage.retry_dead();
            stage.retry_dead();
        },
        calls: false,
        at_least: 2,
    },
    Pair {
        name: "relay and a retry of a dead letter",
        profile: Profile::Usual,
        facts: one_unreadable,
        prepare: dead_letter,
        go: |stage| {
            stage.tick();
            stage.retry_dead();
        },
        calls: false,
        at_least: 4,
    },
];

/// A person wants it sent once more.
const SEND_AGAIN: &str = r#"{"verdict":"send_again","note":"it matters"}"#;

/// What its template needs is not there.
fn one_unreadable() -> Vec<Fact> {
    vec![fact_of(0, "invitation", (None, None), false)]
}

fn dead_letter(stage: &Stage) {
    stage.enqueued(&[0]);
    stage.consumer(&[0], &[]);
    stage.wait(3_000);
    stage.sim.main.take();
    stage.are(&[0], "dead_letter");
}

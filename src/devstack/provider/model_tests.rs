//! The rules of sending, with time moved by hand.

use super::*;
use crate::devstack::provider::keys::KEY_LIFE_MS;

const BODY: &str = r#"{"from":"a@acme.test","to":["b@acme.test"],"subject":"s","text":"x"}"#;
const OTHER: &str = r#"{"from":"a@acme.test","to":["b@acme.test"],"subject":"s","text":"y"}"#;

fn model() -> Model {
    Model::new(Settings {
        per_second: 0,
        ..Settings::default()
    })
}

fn call<'a>(key: &'a str, body: &'a str) -> Call<'a> {
    Call {
        authorization: Some("Bearer re_live"),
        user_agent: Some("test/1"),
        idempotency_key: Some(key),
        body: body.as_bytes(),
        list: None,
    }
}

/// One send from arrival to answer, without a release.
fn send_at(model: &mut Model, now_ms: i64, key: &str, body: &str, id: &str) -> Outcome {
    let now = Millis::new(now_ms);
    match model.arrive(now, &call(key, body)).next {
        Next::Answered(outcome) => outcome,
        Next::Running { ticket, .. } => model.finish(now, ticket, id),
    }
}

fn send(model: &mut Model, key: &str, body: &str, id: &str) -> Outcome {
    send_at(model, 0, key, body, id)
}

fn running(model: &mut Model, key: &str, body: &str) -> (Ticket, bool) {
    match model.arrive(Millis::new(0), &call(key, body)).next {
        Next::Running { ticket, held } => (ticket, held),
        Next::Answered(outcome) => panic!("answered at once: {outcome:?}"),
    }
}

fn name(outcome: &Outcome) -> String {
    let body: Value = serde_json::from_str(&outcome.reply.body).unwrap();
    body["name"].as_str().unwrap().to_owned()
}

fn order(model: &mut Model, kind: FaultKind) {
    model.faults().add(vec![Fault::once(kind)]).unwrap();
}

fn accepted(model: &Model) -> usize {
    model.ledger().sent().len()
}

fn fates(model: &Model) -> Vec<(Fate, Option<u16>)> {
    model
        .ledger()
        .requests()
        .iter()
        .map(|seen| (seen.outcome, seen.status))
        .collect()
}

#[test]
fn the_same_bytes_under_a_key_give_the_first_id_and_send_nothing() {
    let mut model = model();
    let first = send(&mut model, "k", BODY, "id-1");
    let second = send(&mut model, "k", BODY, "id-2");
    assert_eq!(first.reply, second.reply);
    assert_eq!(first.reply, Reply::accepted("id-1"));
    assert_eq!(accepted(&model), 1);
    assert_eq!(
        fates(&model),
        [(Fate::Accepted, Some(200)), (Fate::Replayed, Some(200))]
    );
    let seen = model.ledger().requests();
    assert_eq!(seen[0].body_sha256, seen[1].body_sha256);
}

#[test]
fn other_bytes_under_a_key_are_refused_even_when_they_mean_the_same() {
    let mut model = model();
    send(&mut model, "k", BODY, "id-1");
    let spaced = format!("{BODY} ");
    for body in [OTHER, &spaced] {
        let outcome = send(&mut model, "k", body, "id-2");
        assert_eq!(
            (outcome.reply.status, name(&outcome).as_str()),
            (409, "invalid_idempotent_request")
        );
    }
    assert_eq!(accepted(&model), 1);
}

#[test]
fn a_key_is_forgotten_after_24_hours_and_the_same_bytes_are_a_second_mail() {
    let mut model = model();
    send_at(&mut model, 0, "k", BODY, "id-1");
    assert_eq!(
        send_at(&mut model, KEY_LIFE_MS - 1, "k", BODY, "id-2").reply,
        Reply::accepted("id-1")
    );
    assert_eq!(
        send_at(&mut model, KEY_LIFE_MS, "k", BODY, "id-3").reply,
        Reply::accepted("id-3")
    );
    assert_eq!(accepted(&model), 2);
}

#[test]
fn while_the_first_request_runs_a_second_one_is_told_to_wait_whatever_its_bytes() {
    let mut model = model();
    let (ticket, held) = running(&mut model, "k", BODY);
    assert!(!held);
    for body in [BODY, OTHER] {
        let outcome = send(&mut model, "k", body, "id-2");
        assert_eq!(
            (outcome.reply.status, name(&outcome).as_str()),
            (409, "concurrent_idempotent_requests")
        );
    }
    model.finish(Millis::new(0), ticket, "id-1");
    assert_eq!(send(&mut model, "k", BODY, "id-3").reply, Reply::accepted("id-1"));
    assert_eq!(accepted(&model), 1);
}

#[test]
fn without_a_key_every_request_is_a_mail() {
    let mut model = model();
    for id in ["id-1", "id-2"] {
        let call = Call {
            idempotency_key: None,
            ..call("", BODY)
        };
        let Next::Running { ticket, .. } = model.arrive(Millis::new(0), &call).next else {
            panic!("refused")
        };
        model.finish(Millis::new(0), ticket, id);
    }
    assert_eq!(accepted(&model), 2);
}

#[test]
fn a_key_has_1_to_256_characters() {
    let mut model = model();
    assert_eq!(send(&mut model, &"ä".repeat(256), BODY, "id-1").reply.status, 200);
    for wrong in [String::new(), "k".repeat(257)] {
        let outcome = send(&mut model, &wrong, BODY, "id-2");
        assert_eq!(
            (outcome.reply.status, name(&outcome).as_str()),
            (400, "invalid_idempotency_key")
        );
    }
}

#[test]
fn a_refused_body_leaves_its_key_free() {
    let mut model = model();
    assert_eq!(send(&mut model, "k", "{}", "id-1").reply.status, 422);
    assert_eq!(send(&mut model, "k", "not json", "id-1").reply.status, 400);
    assert_eq!(send(&mut model, "k", BODY, "id-1").reply.status, 200);
}

#[test]
fn the_pace_is_kept_and_shown_on_every_answer() {
    let mut model = Model::new(Settings {
        per_second: 1,
        ..Settings::default()
    });
    let first = send(&mut model, "a", BODY, "id-1");
    assert_eq!(first.reply.header("ratelimit-remaining"), Some("0"));
    let second = send(&mut model, "b", BODY, "id-2");
    assert_eq!(
        (second.reply.status, name(&second).as_str()),
        (429, "rate_limit_exceeded")
    );
    assert_eq!(second.reply.header("retry-after"), Some("1"));
    assert_eq!(send_at(&mut model, 1_000, "b", BODY, "id-2").reply.status, 200);
}

#[test]
fn a_lost_answer_is_a_mail_that_went_out_and_its_replay_says_so() {
    for (kind, wire) in [
        (FaultKind::AcceptThenDrop, Wire::Cut),
        (FaultKind::AcceptThenStall, Wire::Stall),
        (FaultKind::StallBodyAccepted, Wire::StallBody),
        (FaultKind::TruncatedJson, Wire::Whole),
        (FaultKind::OkWithoutId, Wire::Whole),
        (FaultKind::OkNullId, Wire::Whole),
    ] {
        let mut model = model();
        order(&mut model, kind);
        assert_eq!(send(&mut model, "k", BODY, "id-1").wire, wire, "{kind:?}");
        assert_eq!(accepted(&model), 1, "{kind:?}");
        assert_eq!(
            send(&mut model, "k", BODY, "id-2").reply,
            Reply::accepted("id-1"),
            "{kind:?}"
        );
        assert_eq!(accepted(&model), 1, "{kind:?}");
    }
}

#[test]
fn a_fault_that_loses_the_answer_of_a_replay_sends_no_second_mail() {
    let mut model = model();
    send(&mut model, "k", BODY, "id-1");
    order(&mut model, FaultKind::AcceptThenDrop);
    assert_eq!(send(&mut model, "k", BODY, "id-2").wire, Wire::Cut);
    assert_eq!(accepted(&model), 1);
}

#[test]
fn a_fault_that_accepts_nothing_leaves_no_trace_but_its_line() {
    for kind in [
        FaultKind::Stall,
        FaultKind::RefuseConnection,
        FaultKind::InternalError,
        FaultKind::OkHtml,
    ] {
        let mut model = model();
        order(&mut model, kind);
        send(&mut model, "k", BODY, "id-1");
        assert_eq!(accepted(&model), 0, "{kind:?}");
        assert_eq!(fates(&model)[0].0, Fate::Faulted, "{kind:?}");
        assert_eq!(
            send(&mut model, "k", OTHER, "id-2").reply,
            Reply::accepted("id-2"),
            "{kind:?}"
        );
    }
}

#[test]
fn a_500_may_hide_a_mail_that_went_out() {
    let mut model = model();
    model
        .faults()
        .add(vec![Fault {
            accepts: Some(true),
            ..Fault::once(FaultKind::InternalError)
        }])
        .unwrap();
    let outcome = send(&mut model, "k", BODY, "id-1");
    assert_eq!((outcome.reply.status, accepted(&model)), (500, 1));
    assert_eq!(send(&mut model, "k", OTHER, "id-2").reply.status, 409);
}

#[test]
fn a_held_request_keeps_its_key_locked_and_accepts_nothing_before_the_release() {
    let mut model = model();
    order(&mut model, FaultKind::Hold);
    let (ticket, held) = running(&mut model, "k", BODY);
    assert!(held);
    assert_eq!(accepted(&model), 0);
    assert_eq!(send(&mut model, "k", BODY, "id-2").reply.status, 409);
    assert_eq!(
        model.finish(Millis::new(0), ticket, "id-1").reply,
        Reply::accepted("id-1")
    );
    assert_eq!(accepted(&model), 1);
}

#[test]
fn a_mail_accepted_with_a_held_answer_counts_as_running_until_the_release() {
    let mut model = model();
    order(&mut model, FaultKind::HoldAccepted);
    let (ticket, held) = running(&mut model, "k", BODY);
    assert!(!held);
    assert_eq!(model.finish(Millis::new(0), ticket, "id-1").wire, Wire::AfterRelease);
    assert_eq!(accepted(&model), 1);
    assert_eq!(fates(&model), [(Fate::Accepted, None)]);
    assert_eq!(send(&mut model, "k", BODY, "id-2").reply.status, 409);
    assert!(model.released(ticket));
    assert_eq!(fates(&model)[0], (Fate::Accepted, Some(200)));
    assert_eq!(send(&mut model, "k", BODY, "id-3").reply, Reply::accepted("id-1"));
    assert_eq!(accepted(&model), 1);
}

#[test]
fn a_held_answer_of_a_replay_does_not_lengthen_the_life_of_its_key() {
    let mut model = model();
    send(&mut model, "k", BODY, "id-1");
    order(&mut model, FaultKind::HoldAccepted);
    let late = Millis::new(KEY_LIFE_MS - 1);
    let Next::Running { ticket, .. } = model.arrive(late, &call("k", BODY)).next else {
        panic!("refused")
    };
    assert_eq!(model.finish(late, ticket, "id-2").wire, Wire::AfterRelease);
    assert!(model.released(ticket));
    assert_eq!(
        send_at(&mut model, KEY_LIFE_MS, "k", BODY, "id-3").reply,
        Reply::accepted("id-3")
    );
}

#[test]
fn a_reset_forgets_what_runs() {
    let mut model = model();
    order(&mut model, FaultKind::Hold);
    let (before, _) = running(&mut model, "k", BODY);
    model.reset();
    let (after, held) = running(&mut model, "k", OTHER);
    assert!(!held);
    assert_eq!(model.finish(Millis::new(0), before, "id-1").wire, Wire::Cut);
    assert_eq!(accepted(&model), 0);
    assert_eq!(
        model.finish(Millis::new(0), after, "id-2").reply,
        Reply::accepted("id-2")
    );
    assert!(!model.released(before));
}

#[test]
fn the_wait_of_a_rule_comes_before_its_answer() {
    let mut model = model();
    model
        .faults()
        .add(vec![
            Fault {
                ms: 250,
                ..Fault::once(FaultKind::Slow)
            },
            Fault {
                ms: 9,
                ..Fault::once(FaultKind::Refuse)
            },
        ])
        .unwrap();
    assert_eq!(model.arrive(Millis::new(0), &call("a", BODY)).wait_ms, 250);
    let refused = model.arrive(Millis::new(0), &call("b", BODY));
    assert_eq!(refused.wait_ms, 9);
    assert!(matches!(refused.next, Next::Answered(_)));
}

#[test]
fn a_fault_that_spoils_answers_waits_for_a_mail_that_gets_through() {
    let mut model = Model::new(Settings {
        per_second: 1,
        ..Settings::default()
    });
    send(&mut model, "a", BODY, "id-1");
    order(&mut model, FaultKind::AcceptThenDrop);
    assert_eq!(send(&mut model, "b", BODY, "id-2").reply.status, 429);
    assert_eq!(model.faults().rules()[0].hits, 0);
    assert_eq!(model.ledger().requests()[1].fault, None);
    assert_eq!(send_at(&mut model, 1_000, "b", BODY, "id-2").wire, Wire::Cut);
    assert_eq!(model.faults().rules()[0].hits, 1);
}

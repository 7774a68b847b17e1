//! How rules are chosen, counted and refused.

use super::*;

fn read(json: &str) -> Fault {
    serde_json::from_str(json).unwrap()
}

fn kinds(faults: &mut Faults, requests: usize) -> Vec<Option<FaultKind>> {
    (0..requests)
        .map(|_| faults.take(Some("k"), &[]).map(|fault| fault.kind))
        .collect()
}

#[test]
fn a_rule_skips_then_hits_then_is_used_up() {
    let mut faults = Faults::default();
    faults
        .add(vec![read(r#"{"kind":"internal_error","skip":1,"count":2}"#)])
        .unwrap();
    let hit = Some(FaultKind::InternalError);
    assert_eq!(kinds(&mut faults, 4), [None, hit, hit, None]);
    let rule = &faults.rules()[0];
    assert_eq!((rule.skipped, rule.hits), (1, 2));
}

#[test]
fn minus_one_holds_until_it_is_cleared() {
    let mut faults = Faults::default();
    faults.add(vec![read(r#"{"kind":"stall","count":-1}"#)]).unwrap();
    assert!(kinds(&mut faults, 50).iter().all(Option::is_some));
    faults.clear();
    assert_eq!(kinds(&mut faults, 1), [None]);
}

#[test]
fn the_first_rule_that_fits_wins_and_a_used_up_one_makes_room() {
    let mut faults = Faults::default();
    faults
        .add(vec![
            Fault::once(FaultKind::RateLimit),
            Fault::once(FaultKind::NoContent),
        ])
        .unwrap();
    assert_eq!(
        kinds(&mut faults, 3),
        [Some(FaultKind::RateLimit), Some(FaultKind::NoContent), None]
    );
}

#[test]
fn a_condition_looks_for_parts_of_the_key_and_of_a_recipient() {
    let rule = read(r#"{"kind":"refuse","match":{"key":"ord_","to":"ada@"}}"#);
    let to = ["bob@acme.test".to_owned(), "ada@acme.test".to_owned()];
    assert!(rule.fits(Some("env.ord_1"), &to));
    assert!(!rule.fits(Some("env.inv_1"), &to));
    assert!(!rule.fits(None, &to));
    assert!(!rule.fits(Some("env.ord_1"), &to[..1]));
}

#[test]
fn rules_without_sense_are_refused_all_together() {
    let mut faults = Faults::default();
    let cases = [
        (r#"{"kind":"stall","count":0}"#, FaultError::Count),
        (r#"{"kind":"stall","count":-2}"#, FaultError::Count),
        (r#"{"kind":"slow","ms":600001}"#, FaultError::Delay),
        (r#"{"kind":"rate_limit","accepts":true}"#, FaultError::Accepts),
        (r#"{"kind":"truncated_json","accepts":false}"#, FaultError::Accepts),
        (r#"{"kind":"rate_limit","retryAfter":"a\nb"}"#, FaultError::RetryAfter),
    ];
    for (wrong, error) in cases {
        let batch = vec![Fault::once(FaultKind::Stall), read(wrong)];
        assert_eq!(faults.add(batch), Err(error), "{wrong}");
    }
    assert_eq!(
        faults.add(vec![Fault::once(FaultKind::Stall); RULES_MAX + 1]),
        Err(FaultError::TooMany)
    );
    assert!(faults.rules().is_empty());
    assert!(serde_json::from_str::<Fault>(r#"{"kind":"stall","matches":{}}"#).is_err());
    assert!(serde_json::from_str::<Fault>(r#"{"kind":"no_such_kind"}"#).is_err());
}

#[test]
fn a_rule_may_say_that_a_failing_provider_took_the_mail() {
    assert!(!Fault::once(FaultKind::InternalError).lets_through());
    assert!(read(r#"{"kind":"internal_error","accepts":true}"#).lets_through());
    assert!(Fault::once(FaultKind::OkWithoutId).lets_through());
    assert!(!read(r#"{"kind":"ok_without_id","accepts":false}"#).lets_through());
}

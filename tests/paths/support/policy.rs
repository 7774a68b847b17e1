//! Families and settings for tests of pace and order.

use sealpost::outbox::family::Family;
use sealpost::policy::Policy;

/// The usual families, each changed as the test wants.
pub fn policy_with(change: impl Fn(&mut Family)) -> &'static Policy {
    let mut kinds = Policy::built_in_kinds();
    for kind in &mut kinds {
        change(&mut kind.family);
    }
    Box::leak(Box::new(Policy::of(kinds)))
}

/// One call at a time, so that the hand-driven clock wakes them in the order of their slots; and room for a whole batch.
pub const ONE_BY_ONE: &[(&str, &str)] = &[
    ("CALLS_AT_ONCE", "1"),
    ("PROVIDER_TIMEOUT_MS", "5000"),
    ("LEASE_MS", "840000"),
    ("SUBREQUEST_BUDGET", "108"),
];

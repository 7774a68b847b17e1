//! Hashes that find rows and are no business keys: the fact without its revision, and the caller's name of a send.

use super::{KeyRing, Parts, Secret};
use crate::outbox::identity::Identity;

const FACT_TUPLE_LABEL: &str = "sealpost/fact/tuple/1";
const FACT_CALLER_LABEL: &str = "sealpost/fact/caller/1";
const SEND_ID_LABEL: &str = "sealpost/send-id/1";

/// The fact whatever its revision, under every accepted secret: what finds the one-time secret that an earlier revision
/// went out with. 64 hexadecimal digits each.
pub fn facts_for(ring: &KeyRing, family: &str, identity: &Identity) -> Vec<String> {
    let label = match identity {
        Identity::Tuple(_) => FACT_TUPLE_LABEL,
        Identity::Caller(_) => FACT_CALLER_LABEL,
    };
    let fact = |secret| {
        let mut parts = Parts::new(secret, label);
        parts.text(family);
        parts.identity(identity);
        parts.finish()
    };
    ring.accepted().map(fact).collect()
}

/// The caller's name of a send, within its family, with the secret of the recipient hash: it has to be found only while
/// the send waits, so a secret that is not rotated finds it from every version. 64 hexadecimal digits.
pub fn send_id_hash(secret: &Secret, family: &str, id: &str) -> String {
    let mut parts = Parts::new(secret, SEND_ID_LABEL);
    parts.text(family);
    parts.text(id);
    parts.finish()
}

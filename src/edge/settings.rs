//! The Worker's variables and secrets as settings.

use worker::Env;

use crate::config::Lookup;

/// Reads variables and secrets alike: both are plain bindings to the program.
pub(super) fn of(env: &Env) -> impl Lookup + '_ {
    |name: &str| env.var(name).ok().map(|value| value.to_string())
}

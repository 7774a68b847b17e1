//! A world for the paths, with hands on everything that can go wrong.

mod broker;
mod clock;
mod death;
mod log;
mod mailer;
mod operator;
mod policy;
mod queue;
mod random;
mod release;
mod settings;
mod transport;
mod world;

pub use clock::HandClock;
pub use death::die_when;
pub use operator::{all_pages, check_door, look, order, refusal};
pub use policy::{ONE_BY_ONE, policy_with};
pub use queue::TestQueue;
pub use release::{DOMAIN_PER_MINUTE, FAMILY_PER_MINUTE, PER_SECOND, release};
pub use settings::config_with;
pub use transport::{EngineTransport, Wire};
pub use world::{TestWorld, integer, notice, notice_with_key, text};

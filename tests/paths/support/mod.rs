//! A world for the paths, with hands on everything that can go wrong.

mod broker;
mod clock;
mod death;
mod log;
mod mailer;
mod queue;
mod random;
mod settings;
mod transport;
mod world;

pub use broker::TestBroker;
pub use clock::HandClock;
pub use death::die_when;
pub use log::Notes;
pub use mailer::ModelMailer;
pub use queue::TestQueue;
pub use settings::{config, config_with};
pub use transport::{EngineTransport, Wire};
pub use world::{TestWorld, integer, notice, notice_with_key, text};

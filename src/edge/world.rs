//! The paths' world, made afresh for every invocation: nothing that does IO outlives the event that made it.

use super::clock::{EdgeClock, EdgeRandom};
use super::log::EdgeLog;
use super::net::{DatabaseTransport, ProviderMailer};
use super::zones::EdgeZones;
use crate::config::Config;
use crate::ports::World;
use crate::store::hrana::Hrana;

/// Everything that a path asks of the Worker.
pub(super) struct EdgeWorld {
    database: Hrana<DatabaseTransport, EdgeClock>,
    mailer: ProviderMailer,
    zones: EdgeZones,
}

impl EdgeWorld {
    /// A world for one invocation.
    pub(super) fn new(config: &Config) -> Self {
        let database = DatabaseTransport {
            url: config.database_url.clone(),
            token: config.credentials.database.clone(),
            timeout: config.timing.database_timeout,
        };
        Self {
            database: Hrana::new(database, EdgeClock),
            mailer: ProviderMailer {
                url: config.provider_url.clone(),
                key: config.credentials.provider.clone(),
                reading_key: config
                    .credentials
                    .provider_reading
                    .clone()
                    .unwrap_or_else(|| config.credentials.provider.clone()),
                timeout: config.timing.provider_timeout,
            },
            zones: EdgeZones::default(),
        }
    }
}

impl World for EdgeWorld {
    type Database = Hrana<DatabaseTransport, EdgeClock>;
    type Mailer = ProviderMailer;
    type Clock = EdgeClock;
    type Random = EdgeRandom;
    type Log = EdgeLog;
    type Zones = EdgeZones;

    fn database(&self) -> &Self::Database {
        &self.database
    }

    fn mailer(&self) -> &Self::Mailer {
        &self.mailer
    }

    fn clock(&self) -> &Self::Clock {
        &EdgeClock
    }

    fn random(&self) -> &Self::Random {
        &EdgeRandom
    }

    fn log(&self) -> &Self::Log {
        &EdgeLog
    }

    fn zones(&self) -> &Self::Zones {
        &self.zones
    }
}

//! Time zones where there is no platform to ask: a library's own copy of the IANA database.

use jiff::Timestamp;
use jiff::tz::TimeZoneDatabase;

use crate::outbox::time::Millis;
use crate::ports::Zones;

/// The zones of the library.
#[derive(Clone, Copy, Debug)]
pub struct BundledZones;

impl Zones for BundledZones {
    fn offset(&self, zone: &str, at: Millis) -> Option<i32> {
        let zone = TimeZoneDatabase::bundled().get(zone).ok()?;
        let first = Timestamp::MIN.as_millisecond();
        let at = Timestamp::from_millisecond(at.get().clamp(first, Timestamp::MAX.as_millisecond())).ok()?;
        Some(zone.to_offset(at).seconds())
    }
}

//! When a family's mails may be called: its quiet hours, by the clock of each recipient.

use crate::outbox::family::Family;
use crate::outbox::quiet::{is_zone_name, next_permitted};
use crate::outbox::time::Millis;
use crate::ports::Zones;

/// Whether there is a zone of this name.
pub(crate) fn is_zone(zones: &impl Zones, name: &str) -> bool {
    is_zone_name(name) && zones.offset(name, Millis::new(0)).is_some()
}

/// The quiet hours of one mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hours {
    quiet: (u16, u16),
    zone: String,
}

impl Hours {
    /// Those of a family, in the recipient's zone where it is known; `None` where the family has none.
    pub(crate) fn of(family: &Family, time_zone: Option<&str>) -> Option<Self> {
        family.quiet_hours.map(|quiet| Self {
            quiet,
            zone: time_zone.unwrap_or(family.time_zone).to_owned(),
        })
    }

    /// The first instant at `at` or later at which the mail may be called; `None` where there is no such zone.
    pub(crate) fn permitted(&self, zones: &impl Zones, at: Millis) -> Option<Millis> {
        if !is_zone_name(&self.zone) {
            return None;
        }
        next_permitted(self.quiet, at, &|at| zones.offset(&self.zone, at))
    }
}

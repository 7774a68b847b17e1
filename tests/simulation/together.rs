//! Runs in which everything goes out together: a campaign that is stated at once, so that batches are made.

use std::rc::Rc;

use super::choices::{Choices, Subject};
use super::setting::{BATCH_FAMILY, Setting, fact_of};
use super::sim::Sim;

/// How many of a thousand runs are a campaign.
const CAMPAIGNS_PERMILLE: u32 = 200;

impl Setting {
    /// Perhaps every fact is a mail of a campaign. Drawn after everything else.
    pub fn perhaps_together(mut self, choices: &Choices) -> Self {
        if choices.chance(Subject::Setting, CAMPAIGNS_PERMILLE) {
            let count = u32::try_from(self.facts.len()).expect("few");
            self.facts = (0..count)
                .map(|number| fact_of(number, BATCH_FAMILY, (None, None), true))
                .collect();
        }
        self
    }
}

/// A campaign is stated whole as well, in one request.
pub fn start(sim: &Rc<Sim>) {
    let facts = &sim.setting.facts;
    if facts.len() > 1 && facts.iter().all(|fact| fact.family == BATCH_FAMILY) {
        super::callers::state(sim, facts.clone());
    }
}

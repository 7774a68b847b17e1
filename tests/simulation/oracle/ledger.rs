//! One fact, one mail, through every way in: what another system sent is never called, a send's name keeps back only what
//! is new, and a link that is in a mail is in every later one for as long as a letter says it.

use super::{Oracle, State};
use crate::report::Invariant;
use crate::setting::{Profile, Program, hash_of, version};
use crate::store::{OutboxRow, Store};

/// Where the link of a letter begins.
const LINK: &str = "https://example.org/cancel?t=";

impl Oracle {
    /// Somebody was told that a fact is known to have been sent by another system: `made` now, or known before.
    pub fn backfilled(&self, fact: &str, id: &str, made: bool) {
        let mut state = self.inner.borrow_mut();
        state.report.checked(Invariant::I2);
        let row = state.rows.get(id).cloned();
        let right = row.is_some_and(|row| !made || row.status == "external");
        if !right || state.row_of.get(fact).is_some_and(|known| known != id) {
            state.broken(
                Invariant::I2,
                format!("{fact} was backfilled as {id}, which is not its row"),
            );
        }
    }
}

impl State {
    /// The fact of a row without a letter: another system sent it, and only its recipient is known.
    pub(super) fn fact_without_letter(&self, row: &OutboxRow) -> Option<String> {
        if row.status != "external" {
            return None;
        }
        let config = &version(Profile::Usual, crate::paced::Pace::AsTheProfile, Program::First).config;
        let found = self
            .facts
            .iter()
            .find(|(_, truth)| hash_of(config, &truth.to) == row.recipient_hash);
        found.map(|(name, _)| name.clone())
    }

    /// Whether a caller was rightly told another fact's row: that one has the same name, was waiting, and this fact has no
    /// row of its own.
    pub(super) fn is_absorbed(&mut self, fact: &str, id: &str) -> bool {
        let Some(first) = self.fact_of.get(id).cloned().filter(|first| first != fact) else {
            return false;
        };
        self.report.checked(Invariant::I2);
        let name = |fact: &str| self.facts.get(fact).and_then(|truth| truth.name.clone());
        if name(fact).is_none() || name(fact) != name(&first) {
            self.broken(Invariant::I2, format!("{fact} was answered with the row of {first}"));
        } else if let Some(own) = self.told.get(fact).cloned() {
            let what = format!("{fact} is known as {own}, and was answered with the row of {first}");
            self.broken(Invariant::I2, what);
        }
        self.report.event("a send's name kept another one back");
        true
    }

    /// A new letter says the link of the first letter that is still there.
    pub(super) fn link_recorded(&mut self, row: &OutboxRow, letter: &str, store: &Store) {
        let Some(link) = link_of(letter) else { return };
        self.report.checked(Invariant::I5);
        let fact = |id: &str| {
            let name = self.fact_of.get(id)?;
            Some(name.split(" revision").next().unwrap_or_default().to_owned())
        };
        let of_this = fact(&row.id);
        let alive = self
            .links
            .iter()
            .find(|(id, _)| fact(id) == of_this && store.one_number(LETTERS, id) > 0);
        if let Some((first, known)) = alive.cloned() {
            self.report.event("a later revision had a link to reuse");
            if known != link {
                self.broken(Invariant::I5, format!("{} has another link than {first}", row.id));
            }
        }
        self.links.push((row.id.clone(), link));
    }

    /// A mail says the link of its letter.
    pub(super) fn link_called(&mut self, key: &str, body: &str) {
        let Some(id) = self.key_of.get(key) else { return };
        let Some((_, link)) = self.links.iter().find(|(of, _)| of == id) else {
            return;
        };
        if !body.contains(link.as_str()) {
            let what = format!("the mail of {id} says another link than its letter");
            self.broken(Invariant::I5, what);
        }
    }
}

const LETTERS: &str = "SELECT count(*) FROM letters WHERE outbox_id = ?1";

fn link_of(letter: &str) -> Option<String> {
    let from = letter.find(LINK)?;
    let link = letter[from..].split('"').next()?;
    Some(link.to_owned())
}

//! The audit: the database against the broker, and the provider's mails against both. It knows the designs only as far
//! as it must to read their tables and their messages.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use sealpost::outbox::envelope::Envelope;

use crate::dual;
use crate::platform::{Design, Platform};
use crate::support::{integer, text};

/// What is wrong with a pledge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It is recorded, and the broker never heard of it.
    NeverAnnounced(String),
    /// The broker heard of it, and it was never recorded.
    Ghost(String),
    /// The fund matched it more than once.
    MatchedAgain(String),
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverAnnounced(pledge) => write!(out, "never-announced:{pledge}"),
            Self::Ghost(pledge) => write!(out, "ghost:{pledge}"),
            Self::MatchedAgain(pledge) => write!(out, "matched-again:{pledge}"),
        }
    }
}

/// What can be seen of a platform from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The recorded pledges, oldest first.
    pub pledges: Vec<String>,
    /// The ids of the messages that the broker took, in its order; a message that came twice is there twice.
    pub messages: Vec<String>,
    /// The pledges that these messages announce, in the same order.
    pub announced: Vec<String>,
    /// The pledges that were matched, in the order of the mails; a pledge that was matched twice is there twice.
    pub matched: Vec<String>,
    /// What the fund paid, in cents.
    pub cents: i64,
}

impl Facts {
    pub fn findings(&self) -> Vec<Finding> {
        let (mut announced, mut matched) = (BTreeSet::new(), BTreeSet::new());
        let never = self.pledges.iter().filter(|pledge| !self.announced.contains(pledge));
        let ghosts = self
            .announced
            .iter()
            .filter(|pledge| announced.insert(*pledge) && !self.pledges.contains(pledge));
        let again = self.matched.iter().filter(|pledge| !matched.insert(*pledge));
        never
            .cloned()
            .map(Finding::NeverAnnounced)
            .chain(ghosts.cloned().map(Finding::Ghost))
            .chain(again.cloned().map(Finding::MatchedAgain))
            .collect()
    }

    /// Whether these pledges are recorded, in this order, and each is announced and matched once, and nothing else is.
    /// Receipts of one batch go out side by side, so the order of the mails says nothing.
    pub fn all_told_once(&self, pledges: &[String]) -> bool {
        let mut matched = self.matched.clone();
        matched.sort_by_key(|pledge| self.pledges.iter().position(|other| other == pledge));
        self.findings().is_empty() && self.pledges == pledges && matched == pledges
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let findings: Vec<String> = self.findings().iter().map(Finding::to_string).collect();
        let verdict = if findings.is_empty() {
            "consistent".to_owned()
        } else {
            findings.join(" ")
        };
        write!(
            out,
            "pledges [{}], messages [{}], matched {} -> {verdict}",
            self.pledges.join(" "),
            self.messages.join(" "),
            self.cents
        )
    }
}

impl Platform {
    /// Looks at everything, and changes nothing.
    pub async fn facts(&self) -> Facts {
        let mut facts = match self.design {
            Design::SaveThenPublish | Design::PublishThenSave => {
                let (messages, announced) = self.ear.heard().iter().map(|body| dual::read(body)).unzip();
                Facts {
                    pledges: dual::recorded(self).await,
                    messages,
                    announced,
                    ..Facts::default()
                }
            }
            Design::Outbox => self.outbox_facts().await,
        };
        for sent in self.world.mailer.model.borrow().ledger().sent() {
            let body = sent.mail.text.as_deref().unwrap_or_default();
            let reference = body.lines().find_map(|line| line.strip_prefix("Reference: "));
            facts
                .matched
                .push(reference.expect("a receipt names its pledge").to_owned());
            let digits: String = sent.mail.subject.chars().filter(char::is_ascii_digit).collect();
            facts.cents += digits.parse::<i64>().expect("a receipt names its amount");
        }
        facts
    }

    /// The messages of the outbox are called after the rows that they point to: `msg-1` is the first row's.
    async fn outbox_facts(&self) -> Facts {
        let rows = self
            .world
            .sql(
                "SELECT o.id, o.seq, l.body ->> '$.data.reference'
                 FROM outbox o JOIN letters l ON l.outbox_id = o.id ORDER BY o.seq",
                Vec::new(),
            )
            .await;
        let mut facts = Facts::default();
        let mut known = BTreeMap::new();
        for row in rows {
            let pledge = text(&row[2]);
            facts.pledges.push(pledge.clone());
            known.insert(text(&row[0]), (format!("msg-{}", integer(&row[1])), pledge));
        }
        for body in self.ear.heard() {
            let id = Envelope::read(Some(&body))
                .expect("an envelope of the product")
                .outbox_id;
            // A message that points to no row announces what was never recorded, under the only name it has.
            let (message, pledge) = known.get(&id).cloned().unwrap_or_else(|| (id.clone(), id));
            facts.messages.push(message);
            facts.announced.push(pledge);
        }
        facts
    }
}

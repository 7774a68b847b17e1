//! `GET /metrics`: the figures as Prometheus collects them (text format 0.0.4). No label names a person or a mail.

use core::fmt::Write as _;

use super::http::Answer;
use crate::config::Config;
use crate::ports::{Clock as _, World};
use crate::store::database::DatabaseError;
use crate::store::metrics::{Figures, Tally, metrics};

/// What the format is called.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Milliseconds of a second.
const MS: i64 = 1_000;

/// The figures.
///
/// # Errors
/// [`DatabaseError`].
pub(super) async fn show<W: World>(world: &W, config: &Config) -> Result<Answer, DatabaseError> {
    let now = world.clock().now();
    let (figures, tallies) = metrics(world.database(), now, config.policy.held_families()).await?;
    let age_of = |since: Option<i64>| since.map_or(0, |at| now.get().saturating_sub(at).max(0));
    let ages_ms = [age_of(figures.waiting_since), age_of(figures.bulk_waiting_since)];
    Ok(Answer {
        content_type: CONTENT_TYPE,
        page: Some(text(&figures, &tallies, ages_ms).into()),
        ..Answer::json(200, serde_json::Value::Null)
    })
}

fn text(figures: &Figures, tallies: &[Tally], [age_ms, bulk_age_ms]: [i64; 2]) -> String {
    let mut text = Exposition(String::new());
    text.metric(
        "sealpost_claims_minted_total",
        "counter",
        "Rows recorded since the beginning: one for each fact, revision and resend.",
    );
    text.sample("sealpost_claims_minted_total", &[], &figures.minted.to_string());
    text.metric(
        "sealpost_duplicates_suppressed_total",
        "counter",
        "Intents that were told again and made no mail, by what found the first one.",
    );
    text.tallies("sealpost_duplicates_suppressed_total", "by", &DUPLICATES, tallies);
    text.metric(
        "sealpost_quarantine",
        "gauge",
        "Rows of which nobody knows what became and nobody has decided about, counted to 1000.",
    );
    text.sample("sealpost_quarantine", &[], &figures.quarantine.to_string());
    text.metric(
        "sealpost_claim_to_settle_p99_seconds",
        "gauge",
        "The time from a claim to its sent or failed row that 99 of 100 did not exceed, among the newest 1000 events.",
    );
    if let Some(gap) = figures.gap_p99_ms {
        text.sample("sealpost_claim_to_settle_p99_seconds", &[], &seconds(gap));
    }
    text.metric(
        "sealpost_claim_to_settle_claims",
        "gauge",
        "Claims that the figure above is made of.",
    );
    text.sample("sealpost_claim_to_settle_claims", &[], &figures.gaps.to_string());
    text.metric(
        "sealpost_pending_age_seconds",
        "gauge",
        "How long the row that has waited the longest could have moved; 0 when none could.",
    );
    text.sample("sealpost_pending_age_seconds", &[], &seconds(age_ms));
    text.metric(
        "sealpost_bulk_pending_age_seconds",
        "gauge",
        "How long the bulk row that has been due the longest waits for its admission by the pace; 0 when none does.",
    );
    text.sample("sealpost_bulk_pending_age_seconds", &[], &seconds(bulk_age_ms));
    text.metric(
        "sealpost_shadow_would_suppress_total",
        "counter",
        "Mails of families in shadow mode that would not have gone out, by the reason.",
    );
    text.tallies("sealpost_shadow_would_suppress_total", "reason", &SHADOW, tallies);
    text.0
}

/// Names of tallies with the label that each becomes.
const DUPLICATES: [(&str, &str); 2] = [("duplicate", "key"), ("send_id_duplicate", "send_id")];
const SHADOW: [(&str, &str); 3] = [
    ("shadow_duplicate", "duplicate"),
    ("shadow_recipient_suppressed", "recipient_suppressed"),
    ("shadow_window_closed", "window_closed"),
];

/// The text that is built, a line at a time. Writing to a `String` cannot fail, so the results are not looked at.
struct Exposition(String);

impl Exposition {
    fn metric(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(
            self.0,
            "# HELP {name} {}\n# TYPE {name} {kind}",
            help.replace('\\', "\\\\").replace('\n', "\\n")
        );
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: &str) {
        self.0.push_str(name);
        for (index, (label, value)) in labels.iter().enumerate() {
            let open = if index == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{open}{label}=\"{}\"", escaped(value));
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{close} {value}");
    }

    fn tallies(&mut self, metric: &str, label: &str, names: &[(&str, &str)], tallies: &[Tally]) {
        for (name, word) in names {
            for tally in tallies.iter().filter(|tally| tally.name == *name) {
                let labels = [("family", tally.family.as_str()), (label, *word)];
                self.sample(metric, &labels, &tally.value.to_string());
            }
        }
    }
}

/// A label's value: backslash, quotation mark and line feed are escaped.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Milliseconds in seconds, all three places.
fn seconds(ms: i64) -> String {
    format!("{}.{:03}", ms / MS, ms.rem_euclid(MS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_help_type_and_escaped_labels() {
        let figures = Figures {
            minted: 7,
            quarantine: 1,
            gaps: 2,
            gap_p99_ms: Some(1_050),
            waiting_since: None,
            bulk_waiting_since: None,
        };
        let tally = |name: &str, family: &str| Tally {
            name: name.to_owned(),
            family: family.to_owned(),
            value: 3,
        };
        let tallies = [
            tally("duplicate", "a\"b\\c\nd"),
            tally("shadow_window_closed", "notice"),
            tally("of a later version", "notice"),
        ];
        let text = text(&figures, &tallies, [61_002, 9]);
        assert!(text.ends_with('\n'));
        for line in [
            "# TYPE sealpost_claims_minted_total counter\n",
            "\nsealpost_claims_minted_total 7\n",
            "\nsealpost_duplicates_suppressed_total{family=\"a\\\"b\\\\c\\nd\",by=\"key\"} 3\n",
            "\nsealpost_quarantine 1\n",
            "\nsealpost_claim_to_settle_p99_seconds 1.050\n",
            "\nsealpost_pending_age_seconds 61.002\n",
            "\nsealpost_bulk_pending_age_seconds 0.009\n",
            "\nsealpost_shadow_would_suppress_total{family=\"notice\",reason=\"window_closed\"} 3\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        let helps = text.lines().filter(|line| line.starts_with("# HELP ")).count();
        let types = text.lines().filter(|line| line.starts_with("# TYPE ")).count();
        assert_eq!((helps, types), (8, 8));
        assert!(!text.contains("of a later version"));
    }
}

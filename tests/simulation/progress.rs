//! Signs of life on the error stream. What a run found is on the other one, and is the same however many threads ran.

use std::time::{Duration, Instant};

/// How often something is said; shorter would be noise, longer would look like a hang.
const EVERY: Duration = Duration::from_secs(5);

/// How far a long step has come.
pub struct Progress {
    began: Instant,
    said: Instant,
    unit: &'static str,
    all: u64,
    done: u64,
    /// Violations, where they are counted.
    found: Option<u64>,
}

impl Progress {
    pub fn of(all: u64, unit: &'static str) -> Self {
        let now = now();
        Self {
            began: now,
            said: now,
            unit,
            all,
            done: 0,
            found: None,
        }
    }

    /// The same, with violations on the way.
    pub fn with_violations(all: u64, unit: &'static str) -> Self {
        Self {
            found: Some(0),
            ..Self::of(all, unit)
        }
    }

    /// So many more are done, with so many violations in them.
    pub fn add(&mut self, done: u64, found: u64) {
        self.done += done;
        self.found = self.found.map(|before| before + found);
    }

    /// Says how far it is, where it is time to.
    pub fn tick(&mut self) {
        if self.said.elapsed() < EVERY {
            return;
        }
        self.said = now();
        eprintln!("  {}", self.line(self.began.elapsed()));
    }

    /// How many a second so far.
    pub fn pace(&self) -> f64 {
        self.done as f64 / self.began.elapsed().as_secs_f64().max(0.001)
    }

    fn line(&self, elapsed: Duration) -> String {
        let pace = self.done as f64 / elapsed.as_secs_f64().max(0.001);
        let left = if self.done == 0 {
            "time left unknown".to_owned()
        } else {
            let left = self.all.saturating_sub(self.done) as f64 / pace;
            format!("about {} left", span(left as u64))
        };
        let found = self
            .found
            .map(|found| format!("{found} violations so far, "))
            .unwrap_or_default();
        format!(
            "{} of {} {}, {pace:.1} a second, {found}{left}",
            self.done, self.all, self.unit
        )
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "a person waits in real time; no run can see it"
)]
fn now() -> Instant {
    Instant::now()
}

/// A span of seconds for people.
pub fn span(seconds: u64) -> String {
    match seconds {
        0..=99 => format!("{seconds} s"),
        100..=5_999 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{:.1} h", seconds as f64 / 3_600.0),
    }
}

/// The line of a run in the middle, and of one that has done nothing yet.
pub fn check_progress() {
    let mut progress = Progress::with_violations(1_000, "seeds");
    assert!(progress.line(Duration::from_secs(3)).ends_with("time left unknown"));
    progress.add(200, 3);
    assert_eq!(
        progress.line(Duration::from_secs(10)),
        "200 of 1000 seeds, 20.0 a second, 3 violations so far, about 40 s left"
    );
    assert_eq!(span(7_200), "2.0 h");
}

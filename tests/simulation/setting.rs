//! What one run is about: the facts, the versions of the program, and how the world treats them.

use std::sync::{LazyLock, OnceLock};

use sealpost::config::Config;
use sealpost::outbox::address;
use sealpost::outbox::family::Mode;
use sealpost::outbox::keys::recipient_hash;
use sealpost::outbox::time::Millis;
use sealpost::policy::{Kind, Policy};
use serde_json::{Value as Json, json};

use super::choices::{Choices, Subject};
use super::faults::Mix;
use super::ledger::Ledger;
use super::paced::{self, Pace};
use super::times::{self, Start, Times};

/// 2026-01-01T00:00:00Z, when every run begins.
pub const START_MS: i64 = 1_767_225_600_000;
/// Stands in everything personal, so that it can be searched for.
pub const MARKER: &str = "zq7pd";
/// The family on hold until the last version runs.
pub const HELD_FAMILY: &str = "demo_request_team";
/// The family that only runs in shadow.
pub const SHADOW_FAMILY: &str = "demo_request_visitor";

/// A family whose mails go out together.
pub const BATCH_FAMILY: &str = "campaign";
/// A zone in which most runs begin by day.
const MORNING_ZONE: &str = "Asia/Tokyo";

/// More than a page of the relay.
const CROWD: u32 = 120;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

/// One fact, in the two meanings that a producer could give it.
#[derive(Clone, Debug)]
pub struct Fact {
    pub name: String,
    pub to: String,
    pub family: &'static str,
    pub intent: Json,
    pub other: Json,
    /// What its times mean.
    pub times: Times,
    /// When it is too late for it, or quiet hours begin: callers like to come just before.
    pub last_moment: Option<i64>,
}

/// A version of the program with its settings.
pub struct Version {
    pub config: Config,
}

/// Settings that the versions of a run share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Production's own, without a pace.
    Usual,
    /// Short leases and waits, one call at a time.
    Short,
    /// A provider that keeps no keys.
    WindowZero,
    /// The provider's pace, and the free plan's budget.
    Paced,
    /// A window of ten minutes, half of it usable, so that it closes within an outage.
    ShortWindow,
}

const PROFILES: [Profile; 5] = [
    Profile::Usual,
    Profile::Short,
    Profile::WindowZero,
    Profile::Paced,
    Profile::ShortWindow,
];

impl Profile {
    const fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Usual => &[("LEASE_MS", "300000")],
            Self::Short => &[
                ("CALLS_AT_ONCE", "2"),
                ("SUBREQUEST_BUDGET", "14"),
                ("PROVIDER_TIMEOUT_MS", "5000"),
                ("DATABASE_TIMEOUT_MS", "3000"),
                ("PACE_WAIT_MS", "5000"),
                ("LEASE_MS", "40000"),
                ("BACKOFF_BASE_MS", "1000"),
                ("ENQUEUED_PATIENCE_MS", "120000"),
                ("LONE_DEATHS_MAX", "2"),
            ],
            Self::WindowZero => &[
                ("PROVIDER_WINDOW_MS", "0"),
                ("CALLS_AT_ONCE", "2"),
                ("SUBREQUEST_BUDGET", "20"),
            ],
            Self::Paced => &[
                ("PACE_PER_SECOND", "2"),
                ("PACE_WAIT_MS", "3000"),
                ("SUBREQUEST_BUDGET", "30"),
            ],
            Self::ShortWindow => &[
                ("PROVIDER_WINDOW_MS", "600000"),
                ("PROVIDER_WINDOW_MARGIN_MS", "300000"),
            ],
        }
    }
}

/// Which program a version is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The first.
    First,
    /// Another layout and sender, and a second key secret.
    Changed,
    /// Rolled back: it does not know invitations.
    RolledBack,
    /// The first, with another account at the provider.
    OtherAccount,
    /// The last: every family but the shadowed one is live.
    Last,
    /// The last, with the other account.
    LastOtherAccount,
}

/// Every program.
pub const PROGRAMS: [Program; 6] = [
    Program::First,
    Program::Changed,
    Program::RolledBack,
    Program::OtherAccount,
    Program::Last,
    Program::LastOtherAccount,
];

impl Program {
    pub const fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Changed => "changed",
            Self::RolledBack => "rolled back",
            Self::OtherAccount => "other account",
            Self::Last => "last",
            Self::LastOtherAccount => "last, other account",
        }
    }

    fn policy(self, pace: Pace) -> &'static Policy {
        static POLICIES: OnceLock<Vec<Policy>> = OnceLock::new();
        let policies = POLICIES.get_or_init(|| {
            let pairs = paced::PACES
                .into_iter()
                .flat_map(|pace| PROGRAMS.into_iter().map(move |program| (pace, program)));
            pairs
                .map(|(pace, program)| Policy::of(pace.kinds(program.kinds())))
                .collect()
        });
        &policies[pace as usize * PROGRAMS.len() + self as usize]
    }

    fn kinds(self) -> Vec<Kind> {
        let mut kinds = Policy::built_in_kinds();
        for kind in &mut kinds {
            times::change(&mut kind.family);
            let last = matches!(self, Self::Last | Self::LastOtherAccount);
            match kind.family.name {
                HELD_FAMILY if !last => kind.family.mode = Mode::Hold,
                SHADOW_FAMILY => kind.family.mode = Mode::Shadow,
                "invitation" if last || self == Self::Changed => kind.version = Some("changed"),
                _ => {}
            }
        }
        if self == Self::RolledBack {
            kinds.retain(|kind| kind.family.name != "invitation");
        }
        kinds
    }

    fn settings(self) -> &'static [(&'static str, &'static str)] {
        const BOTH: (&str, &str) = ("KEY_SECRETS", "k2:bmV3LXNlY3JldC1vZi0xNg==,k1:MDEyMzQ1Njc4OWFiY2RlZg==");
        /// The relay looks up what nobody knows.
        const READS: (&str, &str) = ("RESEND_READ_KEY", "re_reads");
        match self {
            Self::First | Self::RolledBack => &[],
            Self::Changed | Self::Last => &[("MAIL_FROM", "Other <other@example.net>"), BOTH, READS],
            Self::OtherAccount => &[("PROVIDER_SCOPE", "other")],
            Self::LastOtherAccount => &[
                ("MAIL_FROM", "Other <other@example.net>"),
                BOTH,
                ("PROVIDER_SCOPE", "other"),
            ],
        }
    }
}

/// A version's configuration; made once.
pub fn version(profile: Profile, pace: Pace, program: Program) -> &'static Version {
    static VERSIONS: LazyLock<Vec<Version>> = LazyLock::new(|| {
        let pairs = PROFILES
            .into_iter()
            .flat_map(|profile| paced::PACES.into_iter().map(move |pace| (profile, pace)))
            .flat_map(|(profile, pace)| PROGRAMS.into_iter().map(move |program| (profile, pace, program)));
        pairs
            .map(|(profile, pace, program)| {
                let mut settings = program.settings().to_vec();
                // The first of a name counts.
                settings.extend(pace.settings());
                settings.extend(profile.settings());
                let mut config = crate::settings::config_with(&settings);
                config.policy = program.policy(pace);
                Version { config }
            })
            .collect()
    });
    let of_profile = profile as usize * paced::PACES.len() + pace as usize;
    &VERSIONS[of_profile * PROGRAMS.len() + program as usize]
}

/// What one run is about.
#[derive(Clone, Debug)]
pub struct Setting {
    /// When the run begins.
    pub start_ms: i64,
    pub profile: Profile,
    pub facts: Vec<Fact>,
    pub programs: Vec<Program>,
    pub instances: usize,
    pub skews: Vec<i64>,
    pub mix: Mix,
    pub max_retries: u32,
    /// How long faults last, in ms.
    pub active_ms: i64,
    /// How long after the end the dead are remembered: a week and more, or not at all.
    pub after_life: bool,
    pub suppressions: u32,
    pub pauses: u32,
    /// Rows of a family on hold, more than a page of the relay has.
    pub crowd: u32,
    /// The versions that ran when faults stopped run on for a while.
    pub quiet_before_the_last: bool,
    /// A row that kills whoever touches it.
    pub poison: Option<Poison>,
    /// Names of sends, replays, backfills, revisions.
    pub ledger: Ledger,
    /// The pace that is set beside the profile's.
    pub pace: Pace,
}

/// A row that kills whoever touches it, for as long as there is one.
#[derive(Clone, Debug)]
pub struct Poison {
    /// Its address.
    pub to: String,
    /// It kills with the call, and not already when it is sealed.
    pub by_call: bool,
}

impl Setting {
    pub fn draw(choices: &Choices) -> Self {
        let about = Subject::Setting;
        let profile = choices.one(about, &PROFILES);
        let count = 1 + choices.below(about, 5);
        let start = Start::draw(choices);
        let mut facts: Vec<Fact> = (0..count).map(|number| fact(choices, number, start.at)).collect();
        facts.extend(start.facts(choices));
        let instances = 1 + choices.below(about, 3) as usize;
        let mut programs = vec![Program::First];
        if choices.chance(about, 400) {
            programs.push(choices.one(about, &PROGRAMS[1..4]));
        }
        let skewed = choices.chance(about, 400);
        let skews = (0..instances)
            .map(|_| {
                if skewed {
                    i64::from(choices.below(about, 2_000)) - 1_000
                } else {
                    0
                }
            })
            .map(|skew| if skewed { skew } else { 0 })
            .collect();
        let crowd = if choices.chance(about, 10) { CROWD } else { 0 };
        let ledger = Ledger::draw(choices);
        ledger.add(&mut facts, start.at);
        let poison = choices.chance(about, 60).then(|| Poison {
            to: facts[0].to.clone(),
            by_call: choices.chance(about, 500),
        });
        Self {
            start_ms: start.at,
            poison,
            ledger,
            crowd,
            quiet_before_the_last: choices.chance(about, 150) || crowd > 0,
            profile,
            facts,
            programs,
            instances,
            skews,
            mix: Mix::draw(choices),
            max_retries: choices.one(about, &[100, 3, 1]),
            active_ms: choices.one(about, &[10 * MINUTE, 30 * MINUTE, 2 * MINUTE, 3 * HOUR]),
            after_life: choices.chance(about, 250),
            suppressions: if choices.chance(about, 300) {
                1 + choices.below(about, 2)
            } else {
                0
            },
            pauses: if choices.chance(about, 200) { 1 } else { 0 },
            pace: Pace::default(),
        }
        .perhaps_together(choices)
        .perhaps_paced(choices)
    }

    pub fn version(&self, program: Program) -> &'static Version {
        version(self.profile, self.pace, program)
    }
}

impl Fact {
    /// The contents of its attachments.
    pub fn files(&self) -> Vec<String> {
        let files = self.intent["attachments"].as_array().into_iter().flatten();
        files
            .map(|file| file["content"].as_str().expect("base64").to_owned())
            .collect()
    }
}

fn fact(choices: &Choices, number: u32, start: i64) -> Fact {
    let about = Subject::Setting;
    let family = choices.one(
        about,
        &[
            "notice",
            "notice",
            "invitation",
            BATCH_FAMILY,
            BATCH_FAMILY,
            HELD_FAMILY,
            SHADOW_FAMILY,
            "report",
        ],
    );
    let (not_before, not_after) = match choices.below(about, 8) {
        5 => (Some(start + 3 * MINUTE), None),
        6 => (
            None,
            Some(start + choices.one(about, &[5 * MINUTE, 90 * MINUTE, 30_000, MINUTE, 2 * MINUTE])),
        ),
        7 => (Some(start + 2 * MINUTE), Some(start + 20 * MINUTE)),
        _ => (None, None),
    };
    let complete = choices.below(about, 10) < 9;
    fact_of(number, family, (not_before, not_after), complete)
}

/// A fact. Its window is "not before" and "not after"; without what its template needs (`complete`), an invitation
/// cannot be sealed.
pub fn fact_of(
    number: u32,
    family: &'static str,
    (not_before, not_after): (Option<i64>, Option<i64>),
    complete: bool,
) -> Fact {
    let name = format!("fact {number}");
    let to = format!("{MARKER}.{number}@example.org");
    let mut intent = json!({ "family": family, "to": { "email": to, "name": format!("{MARKER} Ada") } });
    let with_times = times::letter(family, &name);
    match family {
        _ if with_times.is_some() => {
            let letter = with_times.expect("it is there");
            let members = intent.as_object_mut().expect("an object");
            members.extend(letter.as_object().expect("an object").clone());
        }
        "notice" => {
            intent["idempotencyKey"] = json!(name);
            intent["content"] = json!({ "subject": format!("{MARKER} of {name}"), "text": "Good news." });
        }
        "report" => {
            intent["key"] = json!({ "reportId": "r", "period": name, "readerId": "ada" });
            intent["content"] = json!({ "subject": format!("{MARKER} of {name}"), "text": "See the attachments." });
            // "Good news." in base64, and the marker in the name.
            intent["attachments"] = json!([
                { "filename": format!("{MARKER} {number}.pdf"), "contentType": "application/pdf", "content": "R29vZCBuZXdzLg==" },
                { "filename": "b.csv", "content": "QUJD" },
            ]);
        }
        BATCH_FAMILY => {
            // Most runs begin at midnight by UTC, and last for minutes; there it is morning.
            intent["timeZone"] = json!(MORNING_ZONE);
            intent["key"] = json!({ "campaignId": "spring", "contactId": name });
            intent["content"] = json!({ "subject": format!("{MARKER} of {name}"), "text": "Good news." });
        }
        "invitation" => {
            intent["key"] = json!({ "invitationId": name });
            intent["data"] = json!({ "company": "Example", "inviterName": format!("{MARKER} Eve"), "programme": "it",
                "acceptUrl": "https://example.org/accept" });
            if !complete {
                intent["data"].as_object_mut().expect("an object").remove("company");
            }
        }
        _ => {
            intent["key"] = json!({ "submissionId": name });
            intent["data"] = json!({ "name": format!("{MARKER} Eve"), "email": "eve@example.org", "company": "Example",
                "submittedAt": "today", "replyWithin": "a day" });
        }
    }
    if let Some(at) = not_before {
        intent["notBefore"] = json!(Millis::new(at).to_string());
    }
    if let Some(at) = not_after {
        intent["notAfter"] = json!(Millis::new(at).to_string());
    }
    let mut other = intent.clone();
    other["to"]["name"] = json!(format!("{MARKER} Bob"));
    Fact {
        name,
        to,
        family,
        intent,
        other,
        times: Times {
            opens: not_before,
            closes: not_after,
            quiet: (family == BATCH_FAMILY).then_some((times::NIGHT.0, times::NIGHT.1, MORNING_ZONE)),
        },
        last_moment: not_after,
    }
}

/// The facts of a crowd: all of a family on hold.
pub fn crowd(count: u32) -> Vec<Fact> {
    (0..count)
        .map(|number| {
            let name = format!("crowd {number}");
            let to = format!("{MARKER}.crowd.{number}@example.org");
            let intent = json!({ "family": HELD_FAMILY, "to": to, "key": { "submissionId": name },
                "data": { "company": "Example", "name": "Eve", "email": "eve@example.org", "submittedAt": "today" } });
            Fact {
                other: intent.clone(),
                name,
                to,
                family: HELD_FAMILY,
                intent,
                times: Times::default(),
                last_moment: None,
            }
        })
        .collect()
}

/// The hash under which a recipient is suppressed.
pub fn hash_of(config: &Config, to: &str) -> String {
    recipient_hash(&config.recipient_secret, &address::parse(to).expect("an address"))
}

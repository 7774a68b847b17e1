//! Every decision of a run, drawn from one seed, written down, and repeatable.
//!
//! Zero is always the harmless choice: no fault, the shortest wait, the first of a list. A run that is given a shorter
//! or an emptier tape is therefore a calmer run, and that is all the shrinker needs to know.

use std::cell::RefCell;
use std::rc::Rc;

/// What a decision is about. Each subject has a tape of its own, so that emptying one does not shift the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// What the run is about: facts, versions, which faults there are at all.
    Setting,
    /// What callers do.
    Callers,
    /// What the database's wire does.
    Database,
    /// What the provider does.
    Provider,
    /// What the queue does.
    Queue,
    /// When the schedule fires.
    Schedule,
    /// Who dies, and when.
    Deaths,
    /// What operators do.
    Operators,
    /// How long things take.
    Latency,
    /// What the provider says afterwards, and what people do about it.
    News,
    /// What facts say of their time, and when the run begins.
    Times,
    /// Names of sends, replays, backfills, revisions.
    Ledger,
    /// The pace that is set, and the pauses of operators.
    Pace,
}

/// All subjects, in the order of their tapes, by their names.
pub const NAMES: [&str; SUBJECTS] = [
    "setting",
    "callers",
    "database",
    "provider",
    "queue",
    "schedule",
    "deaths",
    "operators",
    "latency",
    "news",
    "times",
    "ledger",
    "pace",
];

/// How many subjects there are.
pub const SUBJECTS: usize = 13;

/// The tapes of one run.
pub type Tapes = [Vec<u32>; SUBJECTS];

struct Track {
    random: SplitMix,
    given: Option<Vec<u32>>,
    taken: Vec<u32>,
}

/// The source of all decisions. A copy reads on from the same place: it knows what was decided when the run is gone.
#[derive(Clone)]
pub struct Choices(Rc<RefCell<Vec<Track>>>);

impl Choices {
    /// Decisions drawn from a seed.
    pub fn from_seed(seed: u64) -> Self {
        Self::new(|subject| {
            (
                SplitMix(mix(seed.wrapping_mul(31).wrapping_add(subject as u64 + 1))),
                None,
            )
        })
    }

    /// Decisions read from tapes; where one ends, everything is zero.
    pub fn from_tapes(tapes: &Tapes) -> Self {
        Self::new(|subject| (SplitMix(0), Some(tapes[subject].clone())))
    }

    fn new(track: impl Fn(usize) -> (SplitMix, Option<Vec<u32>>)) -> Self {
        let tracks = (0..SUBJECTS).map(|subject| {
            let (random, given) = track(subject);
            let taken = Vec::new();
            Track { random, given, taken }
        });
        Self(Rc::new(RefCell::new(tracks.collect())))
    }

    /// A number below `bound`.
    pub fn below(&self, subject: Subject, bound: u32) -> u32 {
        let bound = bound.max(1);
        let track = &mut self.0.borrow_mut()[subject as usize];
        let drawn = match &track.given {
            None => u32::try_from(track.random.next() >> 32).expect("32 bits"),
            Some(tape) => tape.get(track.taken.len()).copied().unwrap_or(0),
        } % bound;
        track.taken.push(drawn);
        drawn
    }

    /// True so many times in a thousand.
    pub fn chance(&self, subject: Subject, permille: u32) -> bool {
        self.below(subject, 1_000) >= 1_000 - permille.min(1_000)
    }

    /// One of a list; the first where the tape says nothing.
    pub fn one<T: Copy>(&self, subject: Subject, list: &[T]) -> T {
        list[self.below(subject, u32::try_from(list.len()).expect("short")) as usize]
    }

    /// What was decided so far.
    pub fn tapes(&self) -> Tapes {
        let tracks = self.0.borrow();
        std::array::from_fn(|subject| tracks[subject].taken.clone())
    }
}

/// splitmix64.
#[derive(Clone, Copy)]
pub struct SplitMix(pub u64);

impl SplitMix {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }
}

/// One number from another, with nothing left of their order.
pub fn mix(state: u64) -> u64 {
    let mut mixed = state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

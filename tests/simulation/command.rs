//! The command line. `npm run simulate -- ...` passes its words on; without any, or with what `cargo test` passes to
//! every test binary, the harness checks itself.

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};

use super::lane::Lane;
use super::planted::Planted;
use super::{checks, exhaustive, finds, interleave, planted, runner, same, seeds};

#[derive(Debug, Parser)]
#[command(
    name = "simulation",
    bin_name = "npm run simulate --",
    disable_help_subcommand = true
)]
struct Words {
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Debug, Subcommand)]
enum Mode {
    /// Runs seeds; the word itself may be left out.
    Seeds(SeedWords),
    /// Runs every kept find again.
    Finds,
    /// Runs some seeds several times and compares their traces.
    Same(RangeWords),
    /// Hunts every planted bug, or those whose name contains a text.
    Planted(PlantedWords),
    /// Injects every fault at every step of every path, or of those whose name contains a text; with a path's whole name
    /// and a plan, repeats one run with its trace.
    Exhaustive(Leftover),
    /// Runs two invocations of one row in every order up to a bound, or the pairs whose name contains a text; with a
    /// pair's whole name, grain, answer and decisions, repeats one run with its trace.
    Interleavings(Leftover),
    /// Prints one number for everything that some seeds did.
    #[command(hide = true)]
    Digest {
        #[command(flatten)]
        range: RangeWords,
        #[arg(long)]
        behind_the_server: bool,
    },
}

#[derive(Debug, Args)]
struct PlantedWords {
    /// Seeds that one bug may take until it shows itself.
    #[arg(long, default_value_t = 4_000)]
    seeds: u64,
    /// A part of the bugs' names.
    #[arg(long, default_value = "", hide_default_value = true)]
    only: String,
}

#[derive(Debug, Args)]
struct Leftover {
    #[arg(trailing_var_arg = true)]
    words: Vec<String>,
}

#[derive(Debug, Args)]
struct RangeWords {
    #[arg(long, default_value_t = 0)]
    from: u64,
    #[arg(long, default_value_t = 50)]
    seeds: u64,
}

/// What to run, and what to do with what it breaks.
#[derive(Debug, Args)]
pub struct SeedWords {
    /// How many seeds.
    #[arg(long, default_value_t = 1_000)]
    pub seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    pub from: u64,
    /// This seed alone.
    #[arg(long, conflicts_with_all = ["seeds", "from", "resume"])]
    pub seed: Option<u64>,
    /// Prints all that happened.
    #[arg(long)]
    pub trace: bool,
    /// Looks for the shortest trace that breaks the same promise.
    #[arg(long)]
    pub shrink: bool,
    /// Writes the shrunk run to tests/simulation/finds/NAME.txt.
    #[arg(long, value_name = "NAME")]
    pub keep: Option<String>,
    /// With --keep: what went wrong and why.
    #[arg(long, requires = "keep", default_value = "", hide_default_value = true)]
    pub why: String,
    /// With --keep: the subject of the commit that mended it.
    #[arg(long, requires = "keep", default_value = "", hide_default_value = true)]
    pub fixed_by: String,
    /// Leaves out what was run on this commit already, and remembers what is run now.
    #[arg(long)]
    pub resume: bool,
    /// With this bug put in on purpose: to see how a violation looks.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["resume", "keep"], value_parser = planted_bug)]
    pub planted: Option<&'static Planted>,
    /// Sends every transaction through the development database's own server, as bytes.
    #[arg(long, conflicts_with_all = ["resume", "planted"])]
    pub behind_the_server: bool,
    /// How many threads; as a rule as many as there are cores.
    #[arg(long, default_value_t = runner::threads(), hide_default_value = true)]
    pub threads: usize,
}

impl SeedWords {
    /// A place to run in as the words say.
    pub fn lane(&self) -> Lane {
        lane(self.planted.unwrap_or(&planted::NOTHING), self.behind_the_server)
    }

    /// What a person adds to a command that is to run the same program.
    pub fn suffix(&self) -> String {
        let bug = self.planted.map(|bug| format!(" --planted {:?}", bug.name));
        let server = self.behind_the_server.then(|| " --behind-the-server".to_owned());
        bug.into_iter().chain(server).collect()
    }
}

fn lane(planted: &'static Planted, behind_the_server: bool) -> Lane {
    let lane = Lane::new(planted);
    if behind_the_server {
        lane.behind_the_server()
    } else {
        lane
    }
}

/// A bug that can be put in, by its name.
fn planted_bug(name: &str) -> Result<&'static Planted, String> {
    let mut bugs = planted::all();
    bugs.extend([&super::shrink::FORGETS, &super::shrink::PANICS]);
    let names: Vec<&str> = bugs.iter().map(|bug| bug.name).collect();
    let found = bugs.iter().copied().find(|bug| bug.name == name);
    found.ok_or_else(|| format!("there are:\n  {}", names.join("\n  ")))
}

/// The words that begin a mode; with anything else, this is a test binary among others.
const MODES: [&str; 9] = [
    "seeds",
    "finds",
    "same",
    "planted",
    "exhaustive",
    "interleavings",
    "digest",
    "--help",
    "help",
];

/// What the arguments ask for: a mode, or the checks with these filters.
fn understood(mut words: Vec<String>) -> Result<Result<Words, Vec<String>>, clap::Error> {
    let first = words.first().map(String::as_str).unwrap_or_default();
    let seeds = first
        .split('=')
        .next()
        .is_some_and(|word| ["--seeds", "--seed", "--from"].contains(&word));
    if seeds {
        words.insert(0, "seeds".to_owned());
    } else if !MODES.contains(&first) {
        words.retain(|word| !word.starts_with('-'));
        return Ok(Err(words));
    }
    let words = Words::try_parse_from(std::iter::once("simulation".to_owned()).chain(words))?;
    if let Mode::Seeds(seeds) = &words.mode
        && seeds.seed.is_none()
        && (seeds.trace || seeds.shrink || seeds.keep.is_some())
    {
        let what = "--trace, --shrink and --keep are about one seed: name it with --seed";
        return Err(Words::command().error(ErrorKind::MissingRequiredArgument, what));
    }
    Ok(Ok(words))
}

/// Does what the arguments ask for.
pub fn main() -> ExitCode {
    let mode = match understood(std::env::args().skip(1).collect()) {
        Ok(Ok(words)) => words.mode,
        Ok(Err(filters)) => return code(checks::run(&filters)),
        Err(error) => error.exit(),
    };
    match mode {
        Mode::Seeds(words) => seeds::run(&words),
        Mode::Finds => code(replay()),
        Mode::Same(RangeWords { from, seeds }) => code(compare(from, seeds)),
        Mode::Planted(words) => code(hunt(&words)),
        Mode::Exhaustive(Leftover { words }) => {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            code(
                match words.as_slice() {
                    [] => exhaustive::main(None),
                    [only] => exhaustive::main(Some(only)),
                    [name, plan @ ..] => exhaustive::repeat(name, plan),
                } == 0,
            )
        }
        Mode::Interleavings(Leftover { words }) => {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            code(
                match words.as_slice() {
                    [] => interleave::main(None),
                    [name, grain, answer, decisions] => interleave::repeat(name, grain, answer, decisions),
                    [only, ..] => interleave::main(Some(only)),
                } == 0,
            )
        }
        Mode::Digest {
            range,
            behind_the_server,
        } => {
            let lane = lane(&planted::NOTHING, behind_the_server);
            println!("{}", same::digest(range.from..range.from + range.seeds, lane));
            ExitCode::SUCCESS
        }
    }
}

fn code(good: bool) -> ExitCode {
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn replay() -> bool {
    let (count, wrong) = finds::replay(&finds::folder(), &planted::NOTHING);
    for line in &wrong {
        println!("{line}");
    }
    println!("{count} finds run again, {} of them wrong", wrong.len());
    wrong.is_empty()
}

fn hunt(words: &PlantedWords) -> bool {
    let lines = planted::run_all(words.seeds, &words.only);
    let caught = lines.iter().filter(|line| line.caught).count();
    for line in &lines {
        println!("{line}");
    }
    println!("{} planted bugs, {caught} caught", lines.len());
    caught == lines.len() && caught > 0
}

fn compare(from: u64, seeds: u64) -> bool {
    let compared = same::compare(from..from + seeds);
    match &compared {
        Ok(()) => println!("{seeds} seeds ran the same each time"),
        Err(error) => println!("{error}"),
    }
    compared.is_ok()
}

/// What people type, what `cargo test` passes, and what nobody can mean.
pub fn check_words() {
    let words = |text: &str| understood(text.split_whitespace().map(str::to_owned).collect());
    let seeds = |text: &str| match words(text) {
        Ok(Ok(Words {
            mode: Mode::Seeds(words),
        })) => words,
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!((seeds("--seeds 10000").seeds, seeds("--seeds 10000").from), (10_000, 0));
    assert_eq!(seeds("--seeds=5 --from 7").from, 7);
    assert!(seeds("seeds --seed 9 --trace").trace);
    assert!(seeds("--from 3 --seeds 9 --resume").resume);
    assert!(matches!(words("finds"), Ok(Ok(Words { mode: Mode::Finds }))));
    for filters in ["", "some_test --nocapture", "some_test -q --test-threads=1"] {
        assert!(matches!(words(filters), Ok(Err(names)) if names.len() <= 1 && names.iter().all(|n| n == "some_test")));
    }
    for wrong in [
        "--seeds many",
        "--seeds 5 --trace",
        "--seed 5 --resume",
        "--seed 5 --seeds 6",
        "finds again",
    ] {
        assert!(words(wrong).is_err(), "{wrong}");
    }
}

//! What the simulation has found, kept for ever: `tests/simulation/finds/*.txt`, one file each, with the decisions of
//! the run (they stay what they are when a seed comes to mean something else) and the trace as a person reads it. Every
//! find is run again by the gate, and must find nothing any more.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::choices::{NAMES, Subject, Tapes};
use super::lane::{Kind, Lane};
use super::planted::Planted;

/// Decisions of one tape; a longer one is a mistake in the file.
const TAPE_MAX: usize = 1_000_000;

/// One find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Find {
    pub broke: Kind,
    /// What went wrong and why, in a sentence.
    pub why: String,
    /// The subject of the commit that mended it.
    pub fixed_by: String,
    pub seed: u64,
    pub tapes: Tapes,
    /// For people; nobody compares it.
    pub trace: Vec<String>,
}

/// Where finds are kept.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulation/finds")
}

impl Find {
    /// The text of its file.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut field = |name: &str, value: &str| writeln!(text, "{}", format!("{name}: {value}").trim_end());
        let written = [
            field("broke", &self.broke.name()),
            field("why", &self.why),
            field("fixed by", &self.fixed_by),
            field("seed", &self.seed.to_string()),
        ];
        assert!(written.iter().all(Result::is_ok), "a text takes everything");
        for (name, tape) in NAMES.iter().zip(&self.tapes) {
            if !tape.is_empty() {
                text.push_str(&format!("tape {name}: {}\n", short(tape)));
            }
        }
        text.push_str("trace:\n");
        for line in &self.trace {
            text.push_str(&format!("  {line}\n"));
        }
        text
    }

    /// Reads a file; the error is a sentence.
    pub fn read(text: &str) -> Result<Self, String> {
        let (head, trace) = text.split_once("trace:\n").ok_or("there is no \"trace:\"")?;
        let mut fields = std::collections::BTreeMap::new();
        for line in head.lines() {
            let (name, value) = line.split_once(':').ok_or(format!("no field: {line:.60}"))?;
            if fields.insert(name, value.trim()).is_some() {
                return Err(format!("\"{name}\" stands there twice"));
            }
        }
        let mut field = |name: &str| fields.remove(name).ok_or(format!("there is no \"{name}\""));
        let broke = field("broke")?;
        let mut find = Self {
            broke: Kind::named(broke).ok_or(format!("nothing is called {broke}"))?,
            why: field("why")?.to_owned(),
            fixed_by: field("fixed by")?.to_owned(),
            seed: field("seed")?.parse().map_err(|_| "the seed is no number")?,
            tapes: Tapes::default(),
            trace: trace.lines().map(|line| line.trim_start().to_owned()).collect(),
        };
        for (name, tape) in fields {
            let subject = name
                .strip_prefix("tape ")
                .and_then(|name| NAMES.iter().position(|known| *known == name));
            find.tapes[subject.ok_or(format!("nothing is called \"{name}\""))?] = long(tape)?;
        }
        Ok(find)
    }
}

/// `0*12 5 7*2`: equal neighbours are written once.
fn short(tape: &[u32]) -> String {
    let runs = tape.chunk_by(|one, other| one == other).map(|run| match run.len() {
        1 => run[0].to_string(),
        times => format!("{}*{times}", run[0]),
    });
    runs.collect::<Vec<_>>().join(" ")
}

fn long(text: &str) -> Result<Vec<u32>, String> {
    let mut tape = Vec::new();
    for word in text.split_whitespace() {
        let (value, times) = word.split_once('*').unwrap_or((word, "1"));
        match (value.parse::<u32>(), times.parse::<usize>()) {
            (Ok(value), Ok(times)) if tape.len().saturating_add(times) <= TAPE_MAX => {
                tape.extend(std::iter::repeat_n(value, times));
            }
            _ => return Err(format!("no decision: {word:.60}")),
        }
    }
    Ok(tape)
}

/// Writes a find; refuses a name that is taken or that no file should have.
pub fn keep(folder: &Path, name: &str, find: &Find) -> Result<PathBuf, String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || !name.chars().all(plain) {
        return Err(format!("{name:?} is no name: a-z, 0-9 and - please"));
    }
    let path = folder.join(format!("{name}.txt"));
    if path.exists() {
        return Err(format!("{} is there already", path.display()));
    }
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&path, find.text()))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

/// Runs every find of a folder again: how many there are, and what is wrong with them.
pub fn replay(folder: &Path, planted: &'static Planted) -> (usize, Vec<String>) {
    let (mut lane, mut wrong) = (Lane::new(planted), Vec::new());
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "txt"));
    paths.sort();
    for path in &paths {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let read = std::fs::read_to_string(path).map_err(|error| error.to_string());
        match read.and_then(|text| Find::read(&text)) {
            Err(error) => wrong.push(format!("{name}: {error}")),
            Ok(find) if find.why.is_empty() || find.fixed_by.is_empty() => {
                wrong.push(format!("{name}: say \"why\" and \"fixed by\" in {}", path.display()));
            }
            Ok(find) => {
                let ran = lane.tapes(&find.tapes, false);
                let broken = ran
                    .broken
                    .iter()
                    .map(|broken| format!("{name}: {}: {}", broken.kind.name(), broken.what));
                wrong.extend(broken);
            }
        }
    }
    (paths.len(), wrong)
}

/// What is written is read again, and what is no find is refused with a reason.
pub fn check_text() {
    let mut tapes = Tapes::default();
    tapes[0] = vec![3, 0, 0, 0, 7, 7, 1];
    tapes[Subject::Latency as usize] = vec![0, 5];
    let find = Find {
        broke: Kind::Panic,
        why: "a late mark: it came after the claim".to_owned(),
        fixed_by: String::new(),
        seed: 17,
        tapes,
        trace: vec!["00:00:00.001 #1 dies".to_owned()],
    };
    assert_eq!(
        find.text(),
        "broke: panic\nwhy: a late mark: it came after the claim\nfixed by:\nseed: 17\ntape setting: 3 0*3 7*2 1\n\
         tape latency: 0 5\ntrace:\n  00:00:00.001 #1 dies\n"
    );
    assert_eq!(Find::read(&find.text()), Ok(find.clone()));
    for (from, to, error) in [
        ("trace:", "steps:", "there is no \"trace:\""),
        ("panic", "I13", "nothing is called I13"),
        ("tape latency", "tape luck", "nothing is called \"tape luck\""),
        ("0 5", "0 x", "no decision: x"),
        ("0 5", "0*9999999", "no decision: 0*9999999"),
        ("seed: 17", "seed: soon", "the seed is no number"),
        ("seed: 17", "sage: 17", "there is no \"seed\""),
    ] {
        assert_eq!(Find::read(&find.text().replace(from, to)), Err(error.to_owned()));
    }
}

/// A find of a planted bug is kept under a name of its own, fails where the bug is, and passes where it is not.
pub fn check_replay() {
    let folder = tempfile::tempdir().expect("a folder");
    let (bug, kind) = (&super::shrink::FORGETS, Kind::Promise(super::shrink::FORGETS.breaks));
    let (seed, ran) = super::shrink::first_broken(&mut Lane::new(bug), kind, 0);
    let mut find = Find {
        broke: kind,
        why: String::new(),
        fixed_by: "Acknowledge after the write".to_owned(),
        seed,
        tapes: ran.tapes,
        trace: Vec::new(),
    };
    assert!(keep(folder.path(), "../up", &find).is_err());
    keep(folder.path(), "no-reason", &find).expect("a good name");
    let (count, wrong) = replay(folder.path(), bug);
    assert_eq!((count, wrong.len()), (1, 1));
    assert!(wrong[0].contains("say \"why\""), "{wrong:?}");
    find.why = "everything was acknowledged".to_owned();
    assert!(
        keep(folder.path(), "no-reason", &find).is_err(),
        "never over another one"
    );
    std::fs::remove_file(folder.path().join("no-reason.txt")).expect("its file");
    keep(folder.path(), "forgets", &find).expect("a good name");
    let (_, wrong) = replay(folder.path(), bug);
    assert!(
        wrong
            .iter()
            .any(|line| line.starts_with(&format!("forgets: {}", kind.name()))),
        "{wrong:?}"
    );
    assert_eq!(replay(folder.path(), &super::planted::NOTHING), (1, Vec::new()));
}

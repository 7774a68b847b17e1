//! The same seed gives the same trace, byte for byte: in a used database and in a new one, on another thread, from its
//! own tapes, behind the whole database server, and in another process.

use std::ops::Range;
use std::process::Command;

use sha2::{Digest, Sha256};

use super::lane::{Lane, Ran};
use super::planted::NOTHING;

/// Seeds that the short check compares.
pub const CHECK_SEEDS: u64 = 6;

/// One number for everything that some seeds did.
pub fn digest(seeds: Range<u64>, mut lane: Lane) -> String {
    let mut hash = Sha256::new();
    for seed in seeds {
        hash.update(format!("{:?}", lane.seed(seed, true)));
    }
    let bytes: [u8; 32] = hash.finalize().into();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs some seeds again and again; the error says where two runs of one seed part.
pub fn compare(seeds: Range<u64>) -> Result<(), String> {
    let run = |seeds: Range<u64>| {
        let mut lane = Lane::new(&NOTHING);
        seeds.map(|seed| lane.seed(seed, true)).collect::<Vec<Ran>>()
    };
    let all = seeds.clone();
    let (first, second) = std::thread::scope(|scope| {
        let other = scope.spawn(|| run(all.clone()));
        (run(all.clone()), other.join().expect("the other thread"))
    });
    let mut used = Lane::new(&NOTHING);
    for ((seed, first), second) in seeds.clone().zip(&first).zip(&second) {
        same(seed, "on another thread", first, second)?;
        // Backwards and twice: what a run leaves in its database must not matter.
        let mirror = seeds.end - 1 - (seed - seeds.start);
        let _ = used.seed(mirror, false);
        same(seed, "after another run", first, &used.seed(seed, true))?;
        same(seed, "in a new database", first, &Lane::new(&NOTHING).seed(seed, true))?;
        same(seed, "from its tapes", first, &used.tapes(&first.tapes, true))?;
        if used.seed(seed, false).lines != first.lines {
            return Err(format!("seed {seed} runs otherwise where nobody keeps its trace"));
        }
    }
    let here = digest(seeds.clone(), Lane::new(&NOTHING));
    for (how, flag) in [
        ("another process", None),
        ("the whole server", Some("--behind-the-server")),
    ] {
        let there = digest_elsewhere(&seeds, flag)?;
        if here != there {
            return Err(format!(
                "{how} runs the same seeds otherwise: {here} here, {there:?} there"
            ));
        }
    }
    Ok(())
}

/// The digest that a new process comes to. The server's engine must be opened before any other in its process.
fn digest_elsewhere(seeds: &Range<u64>, flag: Option<&str>) -> Result<String, String> {
    let count = seeds.end - seeds.start;
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let other = Command::new(program)
        .args([
            "digest",
            "--from",
            &seeds.start.to_string(),
            "--seeds",
            &count.to_string(),
        ])
        .args(flag)
        .output()
        .map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&other.stdout).trim().to_owned())
}

fn same(seed: u64, how: &str, first: &Ran, second: &Ran) -> Result<(), String> {
    if first == second {
        return Ok(());
    }
    let differs = first.trace.iter().zip(&second.trace).find(|(one, other)| one != other);
    let at = differs.map_or_else(
        || format!("{} and {} lines of trace", first.trace.len(), second.trace.len()),
        |(one, other)| format!("\n  {one}\n  {other}"),
    );
    Err(format!("seed {seed} runs otherwise {how}: {at}"))
}

/// A few seeds run the same each time, and the comparison itself sees a difference.
pub fn check_same() {
    compare(0..CHECK_SEEDS).expect("a run depends on its seed alone");
    let mut lane = Lane::new(&NOTHING);
    let (one, other) = (lane.seed(0, true), lane.seed(1, true));
    assert!(same(0, "", &one, &one).is_ok());
    assert!(same(0, "as another seed", &one, &other).is_err_and(|error| error.contains("otherwise as another")));
    assert!(one.trace.len() > 10 && one.lines == one.trace.len());
    assert_ne!(digest(0..1, Lane::new(&NOTHING)), digest(1..2, Lane::new(&NOTHING)));
}

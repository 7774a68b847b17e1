//! The harness's own checks: what `cargo test --test simulation` runs, in the test runner's manner of speaking.

use std::panic::catch_unwind;

/// A check has a name, and panics where something is wrong.
type Check = (&'static str, fn());

const CHECKS: &[Check] = &[
    ("progress::the_line_says_how_far_it_is", super::progress::check_progress),
    ("runner::threads_change_nothing", super::runner::check_threads),
    ("runner::a_stopped_run_has_a_beginning", super::runner::check_stop),
    ("same::a_seed_always_runs_the_same", super::same::check_same),
    ("shrink::a_planted_bug_becomes_small", super::shrink::check_shrinks),
    ("shrink::a_panic_is_a_find", super::shrink::check_panics),
    ("finds::a_file_is_read_as_it_was_written", super::finds::check_text),
    ("finds::a_find_fails_until_it_is_mended", super::finds::check_replay),
    ("resume::a_killed_run_goes_on", super::resume::check_resume),
    ("command::the_words_are_understood", super::command::check_words),
];

/// Runs the checks whose names contain one of the filters, or all; returns whether they passed.
pub fn run(filters: &[String]) -> bool {
    let wanted = |name: &str| filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()));
    let (mut passed, mut failed, mut others) = (0, 0, 0);
    for (name, check) in CHECKS {
        if !wanted(name) {
            others += 1;
            continue;
        }
        let ok = catch_unwind(check).is_ok();
        println!("test {name} ... {}", if ok { "ok" } else { "FAILED" });
        if ok {
            passed += 1;
        } else {
            failed += 1;
        }
    }
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {word}. {passed} passed; {failed} failed; 0 ignored; 0 measured; {others} filtered out");
    failed == 0
}

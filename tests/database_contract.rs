//! The contract of a libSQL server over Hrana HTTP, held against three targets.
//!
//! `engine` and `http` are the development database, without and with HTTP in front; they run always. `remote` is
//! whatever answers at `SEALPOST_CONTRACT_URL`, a real `sqld` for one: it is ignored by default and run by
//! `tests/clients/sqld.mjs`. Where the development database and the real server disagree, the former is wrong.
#![cfg(feature = "cli")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test stops where something is not as expected, in its helpers too"
)]

#[path = "database/batches.rs"]
mod batches;
#[path = "database/command.rs"]
mod command;
#[path = "database/controls.rs"]
mod controls;
#[path = "database/faults.rs"]
mod faults;
#[path = "database/limits.rs"]
mod limits;
#[path = "database/statements.rs"]
mod statements;
#[path = "database/streams.rs"]
mod streams;
#[path = "database/target.rs"]
mod target;

/// Runs each case against each target.
macro_rules! contract {
    ($($room:ident :: $case:ident),* $(,)?) => {
        mod engine {
            $(#[test] fn $case() { crate::$room::$case(&crate::target::engine()); })*
        }
        mod http {
            $(#[test] fn $case() { crate::$room::$case(&crate::target::http()); })*
        }
        mod remote {
            $(#[test]
            #[ignore = "needs a server at SEALPOST_CONTRACT_URL; tests/clients/sqld.mjs runs it"]
            fn $case() { crate::$room::$case(&crate::target::remote()); })*
        }
    };
}

contract![
    statements::values_come_back_as_they_went_in,
    statements::arguments_by_position_and_by_name,
    statements::arguments_that_do_not_fit,
    statements::counts_and_rowids,
    statements::returning_gives_rows_and_counts,
    statements::errors_have_the_real_codes_and_texts,
    statements::statements_that_are_not_run,
    statements::messages_that_cannot_be_read,
    statements::foreign_keys_are_on,
    batches::a_batch_alone_is_not_atomic,
    batches::a_conditional_batch_leaves_nothing_behind,
    batches::a_syntax_error_anywhere_runs_nothing,
    batches::conditions_over_failed_and_skipped_steps,
    batches::a_rollback_on_conflict_is_seen_by_is_autocommit,
    batches::a_commit_can_fail,
    batches::a_response_that_is_too_large_leaves_the_transaction_open,
    batches::a_sequence_stops_at_the_first_error,
    batches::a_cursor_gives_entries,
    batches::version_two_lacks_what_version_three_added,
    streams::a_transaction_lives_across_requests,
    streams::every_baton_is_used_once,
    streams::closing_rolls_back,
    streams::what_ran_before_a_protocol_error_stays,
    streams::stored_texts,
    streams::describe_tells_parameters_and_columns,
    streams::a_stale_reader_cannot_write,
    streams::twenty_writers_at_once,
    streams::an_overdue_transaction_ends_for_a_waiting_writer,
];

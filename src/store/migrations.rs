//! The schema's history, and how a database is brought up to date. Native only: the Worker never migrates.
//!
//! Each migration is one script that runs in one transaction together with the row that records it, so that a failure
//! anywhere leaves nothing of it, and of two runners one waits for the other and then finds the row. The server's own
//! parser splits the script. New schema first, new Worker second; a migration that an older Worker cannot live with
//! raises `serves_from`, and that Worker then refuses work instead of guessing.

use sha2::{Digest, Sha256};

use super::database::{Database, DatabaseError, Statement, Transaction};
use super::hrana::{Hrana, Transport};
use super::row::{row, rows_at};
use crate::outbox::time::Millis;
use crate::ports::Clock;

/// One step of the schema's history.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Its version; without gaps, from 1.
    pub version: u32,
    /// The file's name.
    pub name: &'static str,
    /// The script.
    pub script: &'static str,
    /// The oldest program (by the version it was made for) that can still work on this schema.
    pub serves_from: u32,
}

/// Every migration, in order.
pub const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        name: "0001_outbox",
        script: include_str!("../../migrations/0001_outbox.sql"),
        serves_from: 1,
    },
    Migration {
        version: 2,
        name: "0002_hearing_back",
        script: include_str!("../../migrations/0002_hearing_back.sql"),
        serves_from: 1,
    },
    Migration {
        version: 3,
        name: "0003_time_and_identity",
        script: include_str!("../../migrations/0003_time_and_identity.sql"),
        serves_from: 1,
    },
];

/// Why a database could not be brought up to date.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MigrateError {
    /// The database refused, or nobody knows. Running the command again is always safe.
    #[error("{0}")]
    Database(#[from] DatabaseError),
    /// A migration failed; nothing of it was applied.
    #[error("migration {name} failed and was rolled back ({error})")]
    Failed {
        /// The migration.
        name: &'static str,
        /// What the database said.
        error: DatabaseError,
    },
    /// The database was migrated by another history: the recorded script is not the one of this program.
    #[error(
        "migration {name} is recorded with another content: this database belongs to another version of the program"
    )]
    OtherHistory {
        /// The migration.
        name: &'static str,
    },
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Migrated {
    /// Migrations that ran now.
    pub applied: Vec<&'static str>,
    /// The schema's version.
    pub version: u32,
}

const LEDGER: &str = "CREATE TABLE IF NOT EXISTS schema_migrations (
  version INTEGER NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  serves_from INTEGER NOT NULL,
  applied_at INTEGER NOT NULL
) STRICT";

/// Applies what is missing. Safe to run again after any failure, and from two places at once.
///
/// # Errors
/// [`MigrateError`].
pub async fn migrate<T: Transport, C: Clock>(
    database: &Hrana<T, C>,
    migrations: &[Migration],
    now: Millis,
) -> Result<Migrated, MigrateError> {
    database
        .run(Transaction::repeatable_write(vec![Statement::new(LEDGER, Vec::new())]))
        .await?;
    let mut migrated = Migrated::default();
    for migration in migrations {
        let sha256 = hex(&Sha256::digest(migration.script.as_bytes()));
        if !is_applied(database, migration, &sha256).await? {
            match database.run_script(&script(migration, &sha256, now)).await {
                Ok(()) => migrated.applied.push(migration.name),
                // Another runner may have been faster, or the answer was lost: the ledger knows.
                Err(error) => {
                    if !is_applied(database, migration, &sha256).await? {
                        return Err(MigrateError::Failed {
                            name: migration.name,
                            error,
                        });
                    }
                }
            }
        }
        migrated.version = migration.version;
    }
    Ok(migrated)
}

/// The script and its row in one transaction. The values are our own numbers, names and hexadecimal digits.
fn script(migration: &Migration, sha256: &str, now: Millis) -> String {
    format!(
        "BEGIN IMMEDIATE;\n{}\n;\nINSERT INTO schema_migrations (version, name, sha256, serves_from, applied_at) \
         VALUES ({}, '{}', '{sha256}', {}, {});\nCOMMIT;\n",
        migration.script,
        migration.version,
        migration.name,
        migration.serves_from,
        now.get(),
    )
}

async fn is_applied<D: Database>(database: &D, migration: &Migration, sha256: &str) -> Result<bool, MigrateError> {
    struct Recorded {
        sha256: String,
    }
    row!(Recorded { sha256 });
    let question = Statement::new(
        "SELECT sha256 FROM schema_migrations WHERE version = ?1",
        vec![libsql::Value::Integer(i64::from(migration.version))],
    );
    let results = database.run(Transaction::read(vec![question])).await?;
    match rows_at::<Recorded>(&results, 0)?.first() {
        None => Ok(false),
        Some(recorded) if recorded.sha256 == sha256 => Ok(true),
        Some(_) => Err(MigrateError::OtherHistory { name: migration.name }),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

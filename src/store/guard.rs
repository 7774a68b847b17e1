//! The first statement of every writing path: it aborts the transaction where program and schema do not fit.

use libsql::Value;

use super::database::{DatabaseError, Statement};

/// The schema that this program needs at least. A newer one is fine while it says that it still serves this one.
pub const SCHEMA_VERSION: i64 = 3;

/// Aborts (a constraint failure at this statement's position) unless the schema is at least ours and still
/// compatible with us. Costs no round trip of its own.
pub fn schema_guard() -> Statement {
    Statement::new(
        "INSERT INTO guards (broken)
         SELECT 'schema' WHERE NOT EXISTS (
           SELECT 1 FROM (SELECT max(version) AS newest, max(serves_from) AS oldest FROM schema_migrations) AS schema
           WHERE schema.newest >= ?1 AND schema.oldest <= ?1)",
        vec![Value::Integer(SCHEMA_VERSION)],
    )
}

/// The position of [`schema_guard`] in every transaction that has it.
const SCHEMA_GUARD_AT: usize = 0;

/// Names the failure of a transaction that begins with [`schema_guard`], or with a read of our own tables: where that
/// first statement cannot even run, there are no such tables, and nobody has migrated the database.
pub(super) fn guarded(error: DatabaseError) -> DatabaseError {
    match error {
        DatabaseError::Constraint {
            statement: SCHEMA_GUARD_AT,
        }
        | DatabaseError::Failed {
            statement: SCHEMA_GUARD_AT,
        } => DatabaseError::SchemaMismatch,
        other @ (DatabaseError::Busy
        | DatabaseError::Refused { .. }
        | DatabaseError::SchemaMismatch
        | DatabaseError::Constraint { .. }
        | DatabaseError::Failed { .. }
        | DatabaseError::Ambiguous
        | DatabaseError::Shape) => other,
    }
}

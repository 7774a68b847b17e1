//! Parked input that nobody needs: one entry, or the oldest ones of a kind.

use libsql::Value;

use super::database::{Database, DatabaseError, Statement, Transaction};
use super::guard::{guarded, schema_guard};
use super::operator_log::Order;
use super::parking::{Entry, State, Whole, line_args, whole_of};
use super::row::{row, rows_at};

struct Closed {}
row!(Closed {});

/// "This is not needed." The body goes, the rest stays. Returns the entry and whether this order closed it; `None` where
/// there is none.
///
/// # Errors
/// [`DatabaseError`]; `SchemaMismatch` where program and schema do not fit.
pub async fn discard(
    database: &impl Database,
    hash: &str,
    order: &Order<'_>,
) -> Result<Option<(Entry, bool)>, DatabaseError> {
    let results = database
        .run(Transaction::write(vec![
            schema_guard(),
            Statement::new(
                DISCARD_LINE,
                line_args(hash, order, "parking_discarded", State::Discarded.as_str()),
            ),
            Statement::new(
                DISCARD,
                vec![Value::Text(hash.to_owned()), Value::Integer(order.now.get())],
            ),
            whole_of(hash),
        ]))
        .await
        .map_err(guarded)?;
    let closed = !rows_at::<Closed>(&results, 2)?.is_empty();
    let whole: Option<Whole> = rows_at(&results, 3)?.into_iter().next();
    Ok(whole.map(|whole| (whole.entry, closed)))
}

/// Where it is still open. ?1 hash, ?2 now, ?3 operator, ?4 action, ?5 result, ?6 note
const DISCARD_LINE: &str = "INSERT INTO operator_log (at, operator, action, subject, result, note)
  SELECT ?2, ?3, ?4, hash, ?5, ?6 FROM parking WHERE hash = ?1 AND state = 'parked'";

/// ?1 hash, ?2 now
const DISCARD: &str = "UPDATE parking SET state = 'discarded', closed_at = ?2, body = ''
  WHERE hash = ?1 AND state = 'parked' RETURNING hash";

/// Which open entries are meant.
#[derive(Clone, Copy, Debug)]
pub struct Kind<'a> {
    /// From this source alone.
    pub source: Option<&'a str>,
    /// Parked for this reason alone.
    pub reason: Option<&'a str>,
}

/// What became of an order about many entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Discarded {
    /// Entries that it closed.
    pub count: usize,
    /// Whether entries of this kind are still open.
    pub more: bool,
}

/// "None of these are needed." The oldest open entries of this kind, each with a line of its own. An order whose answer
/// was lost is given again: it closes the next ones.
///
/// # Errors
/// [`DatabaseError`]; `SchemaMismatch` where program and schema do not fit.
pub async fn discard_many(
    database: &impl Database,
    kind: Kind<'_>,
    rows_max: i64,
    order: &Order<'_>,
) -> Result<Discarded, DatabaseError> {
    struct More {
        more: i64,
    }
    row!(More { more });
    let text = |text: Option<&str>| text.map_or(Value::Null, |text| Value::Text(text.to_owned()));
    let kind = [text(kind.source), text(kind.reason)];
    let now = Value::Integer(order.now.get());
    let page = || kind.iter().cloned().chain([Value::Integer(rows_max), now.clone()]);
    let by = [Value::Text(order.operator.to_owned()), text(order.note)];
    let results = database
        .run(Transaction::write(vec![
            schema_guard(),
            Statement::new(DISCARD_LINES, page().chain(by).collect()),
            Statement::new(DISCARD_MANY, page().collect()),
            Statement::new(MORE, kind.to_vec()),
        ]))
        .await
        .map_err(guarded)?;
    Ok(Discarded {
        count: rows_at::<Closed>(&results, 2)?.len(),
        more: rows_at::<More>(&results, 3)?.first().is_some_and(|row| row.more == 1),
    })
}

/// `?1` source or null, `?2` reason or null
macro_rules! open_kind {
    () => {
        "FROM parking WHERE state = 'parked' AND (?1 IS NULL OR source = ?1) AND (?2 IS NULL OR reason = ?2)"
    };
}

/// ?3 rows at most
macro_rules! page {
    () => {
        concat!("(SELECT hash ", open_kind!(), " ORDER BY first_seen_at, hash LIMIT ?3)")
    };
}

/// ?4 now, ?5 operator, ?6 note
const DISCARD_LINES: &str = concat!(
    "INSERT INTO operator_log (at, operator, action, subject, result, note)
     SELECT ?4, ?5, 'parking_discarded', page.hash, 'discarded', ?6 FROM ",
    page!(),
    " AS page"
);

/// The same page, because nothing of it was changed in between. ?4 now
const DISCARD_MANY: &str = concat!(
    "UPDATE parking SET state = 'discarded', closed_at = ?4, body = '' WHERE hash IN ",
    page!(),
    " RETURNING hash"
);

const MORE: &str = concat!("SELECT EXISTS (SELECT 1 ", open_kind!(), ") AS more");

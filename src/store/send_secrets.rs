//! One-time codes and links: every mail of one fact, whatever its revision, says the same ones for as long as a letter of
//! the fact is stored.

use libsql::Value;

use super::database::Statement;
use super::intake::NewIntent;

/// What an intake's transaction has to do after its letters: none where no mail of it can have a secret.
///
/// Repeatable: a second run finds the rows of the first and the same earliest letter.
pub(super) fn statements(intents: &[NewIntent], list: &Value) -> Vec<Statement> {
    if intents.iter().all(|intent| intent.facts.is_empty()) {
        return Vec::new();
    }
    let keep = Statement::new(KEEP_FACTS, vec![list.clone()]);
    // Twice: the second run sees the rows of the first, so that a revision without a secret of its own is kept as well
    // where the same request brings the first one with it.
    vec![keep.clone(), keep, Statement::new(REUSE, vec![list.clone()])]
}

/// "These facts' secret stands in the letters of the row, too." For the row that a person wants sent once more.
/// ?1 the row, ?2 the new row
pub(super) const COPY_FACTS: &str = "INSERT INTO letter_secrets (fact, outbox_id)
  SELECT fact, ?2 FROM letter_secrets WHERE outbox_id = ?1";

/// New rows that bring a secret, or whose fact has one in a letter that is there. ?1 intents
const KEEP_FACTS: &str = "INSERT INTO letter_secrets (fact, outbox_id)
  SELECT k.value, o.id FROM json_each(?1) j JOIN outbox o ON o.id = j.value ->> 'id', json_each(j.value, '$.facts') k
  WHERE j.value ->> 'secret' IS NOT NULL
    OR EXISTS (SELECT 1 FROM json_each(j.value, '$.facts') h JOIN letter_secrets kept ON kept.fact = h.value
      JOIN letters l ON l.outbox_id = kept.outbox_id)
  ON CONFLICT (fact, outbox_id) DO NOTHING";

/// The letters of new rows say what the first letter of the fact says that is still there. ?1 intents
const REUSE: &str = "UPDATE letters SET body = json_set(letters.body, '$.secret', json(page.secret))
  FROM (SELECT j.value ->> 'id' AS id, (
      SELECT l.body -> '$.secret' FROM json_each(j.value, '$.facts') h JOIN letter_secrets kept ON kept.fact = h.value
        JOIN letters l ON l.outbox_id = kept.outbox_id JOIN outbox o ON o.id = kept.outbox_id
      WHERE l.body -> '$.secret' IS NOT NULL
      ORDER BY o.seq LIMIT 1) AS secret
    FROM json_each(?1) j) AS page
  WHERE letters.outbox_id = page.id AND page.secret IS NOT NULL AND letters.body -> '$.secret' IS NOT page.secret";

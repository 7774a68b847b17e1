-- Time and identity: pace and order, names of sends, one-time secrets, replays, batches at the provider, attachments.
-- Everything is added; a program that was made for the schema before goes on working beside it.

-- ---- Order and pace -------------------------------------------------------------------------------------------------
-- The family's, when the row was recorded. 0 goes first.
ALTER TABLE outbox ADD COLUMN priority INTEGER NOT NULL DEFAULT 5 CHECK (priority BETWEEN 0 AND 9);
-- 1: the relay hands it to the queue only as the pace can drain.
ALTER TABLE outbox ADD COLUMN bulk INTEGER NOT NULL DEFAULT 0 CHECK (bulk IN (0, 1));
-- Hash of the recipient's domain: mails to one domain share a pace.
ALTER TABLE outbox ADD COLUMN domain_hash TEXT;

-- What the relay hands over at once: all but the bulk rows that wait for their admission. One that is in doubt, or was
-- admitted and got lost, does not wait for it again.
CREATE INDEX outbox_due_single ON outbox (relay_at, seq)
  WHERE relay_at IS NOT NULL AND (bulk = 0 OR doubts > 0 OR status IN ('enqueued', 'processing'));
-- Bulk rows that wait for their admission, family by family.
CREATE INDEX outbox_due_bulk ON outbox (family, relay_at, seq)
  WHERE relay_at IS NOT NULL AND bulk = 1 AND doubts = 0 AND status IN ('pending', 'retry');
-- The same rows in the order in which the relay looks for those that must not be sent any more.
CREATE INDEX outbox_bulk ON outbox (seq)
  WHERE relay_at IS NOT NULL AND bulk = 1 AND doubts = 0 AND status IN ('pending', 'retry');
-- Bulk rows that were admitted and are not settled yet.
CREATE INDEX outbox_admitted ON outbox (family) WHERE bulk = 1 AND status IN ('enqueued', 'processing');
-- Up to where the relay has looked at the bulk rows that wait.
ALTER TABLE relay_health ADD COLUMN bulk_seen_seq INTEGER NOT NULL DEFAULT 0;
-- What a pause keeps back: its end wakes these.
CREATE INDEX outbox_paused ON outbox (family, seq) WHERE status = 'retry' AND cause = 'paused';
-- Who set the pause. A fault's pause never shortens a person's.
ALTER TABLE pauses ADD COLUMN set_by TEXT NOT NULL DEFAULT 'system' CHECK (set_by IN ('system', 'operator'));
-- Buckets that have been full for long are removed.
CREATE INDEX pace_full ON pace (next_free_at);

-- ---- Names of sends -------------------------------------------------------------------------------------------------
-- Hash of the name that the caller gave this send. It finds the duplicate only while the row is open.
ALTER TABLE outbox ADD COLUMN send_id TEXT;
CREATE INDEX outbox_send_id ON outbox (send_id) WHERE send_id IS NOT NULL AND relay_at IS NOT NULL;

-- ---- One-time codes and links ---------------------------------------------------------------------------------------
-- Which rows carry the secret of one business fact, whatever their revision. The secret itself stands in the letters,
-- and goes with them.
CREATE TABLE letter_secrets (
  -- HMAC of family and tuple without the revision: one row per accepted secret, as in intent_keys.
  fact TEXT NOT NULL,
  outbox_id TEXT NOT NULL REFERENCES outbox (id),
  PRIMARY KEY (fact, outbox_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX letter_secrets_of_row ON letter_secrets (outbox_id);

-- ---- Replays --------------------------------------------------------------------------------------------------------
-- Which replay recorded the row; NULL for an ordinary producer. Never part of a key.
ALTER TABLE outbox ADD COLUMN replay_batch TEXT;
-- What each request of a replay came to.
CREATE TABLE replays (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  -- The id that its first intent would get: a repetition of the request finds what it wrote before.
  request TEXT NOT NULL UNIQUE,
  batch TEXT NOT NULL CHECK (length(batch) BETWEEN 1 AND 64),
  mode TEXT NOT NULL CHECK (mode IN ('send', 'backfill')),
  fresh INTEGER NOT NULL,
  known INTEGER NOT NULL,
  changed INTEGER NOT NULL,
  at INTEGER NOT NULL
) STRICT;
CREATE INDEX replays_of ON replays (batch, seq);

-- The event that records a row names the replay that brought it; its cause stays what it is.
ALTER TABLE events ADD COLUMN replay_batch TEXT;
DROP TRIGGER outbox_recorded;
CREATE TRIGGER outbox_recorded AFTER INSERT ON outbox BEGIN
  INSERT INTO events (outbox_id, from_status, to_status, cause, replay_batch, at)
  VALUES (NEW.id, NULL, NEW.status, NEW.cause, NEW.replay_batch, NEW.created_at);
END;

-- Counts that no table of rows can give afterwards.
CREATE TABLE tallies (
  name TEXT NOT NULL,
  family TEXT NOT NULL,
  value INTEGER NOT NULL,
  -- The request that was counted last: its repetition counts nothing.
  request TEXT NOT NULL,
  PRIMARY KEY (name, family)
) STRICT, WITHOUT ROWID;

-- ---- Attachments ----------------------------------------------------------------------------------------------------
-- Personal data, stored apart from the letter: most letters have none. A letter says how many it has, so that a program
-- that does not know them cannot read it. letter_bytes of the row counts them.
CREATE TABLE attachments (
  outbox_id TEXT NOT NULL REFERENCES outbox (id),
  position INTEGER NOT NULL,
  -- JSON: file name, content type, content in base64.
  body TEXT NOT NULL,
  PRIMARY KEY (outbox_id, position)
) STRICT, WITHOUT ROWID;

-- ---- Parked events --------------------------------------------------------------------------------------------------
-- Events of the provider that nobody understood name people: their bodies go after the retention.
CREATE INDEX parking_bodies ON parking (last_seen_at, hash) WHERE state = 'parked' AND source = 'receipts' AND body <> '';

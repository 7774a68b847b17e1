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

-- ---- Batches at the provider ----------------------------------------------------------------------------------------
-- Up to a hundred mails of one family that go out in one call, frozen together before the first attempt. What is true
-- stays true of each row by itself: its state, its attempts, its doubts. The batch is what is sealed, keyed and called.
CREATE TABLE provider_batches (
  -- Random; goes to the provider with every attempt as the idempotency key.
  id TEXT NOT NULL PRIMARY KEY,
  sha256 TEXT NOT NULL,
  provider TEXT NOT NULL,
  provider_scope TEXT NOT NULL,
  family TEXT NOT NULL,
  members INTEGER NOT NULL CHECK (members BETWEEN 2 AND 100),
  created_at INTEGER NOT NULL,
  -- When it was given up, known not to have been accepted: its mails go on without it.
  dissolved_at INTEGER,
  -- 1: given up because the provider refused it, so that its mails go out one by one.
  refused INTEGER NOT NULL DEFAULT 0 CHECK (refused IN (0, 1)),
  CONSTRAINT only_dissolved_batches_are_refused CHECK (refused = 0 OR dissolved_at IS NOT NULL)
) STRICT, WITHOUT ROWID;

-- Personal data: the request body of a batch, byte for byte, as every attempt sends it.
CREATE TABLE batch_seals (
  batch_id TEXT NOT NULL PRIMARY KEY REFERENCES provider_batches (id),
  sha256 TEXT NOT NULL,
  body TEXT NOT NULL
) STRICT;

-- The batch that the row is frozen in. While the row is open, its `provider_scope` is the account's with 'batch:' before
-- it: a program that knows no batches finds an account that is not its own, and leaves the row alone.
ALTER TABLE outbox ADD COLUMN batch_id TEXT
  CONSTRAINT batches_are_sealed CHECK (batch_id IS NULL OR seal_sha256 IS NOT NULL);
-- Its place in the batch's list, from 0.
ALTER TABLE outbox ADD COLUMN batch_position INTEGER
  CONSTRAINT members_have_a_place CHECK ((batch_position IS NULL) = (batch_id IS NULL));
-- 1: a batch that it was in was refused; it goes out alone.
ALTER TABLE outbox ADD COLUMN batch_refused INTEGER NOT NULL DEFAULT 0 CHECK (batch_refused IN (0, 1));
-- Bulk rows that were admitted and are not settled yet, with what they take from the pace: a look into the index alone.
CREATE INDEX outbox_admitted ON outbox (family, domain_hash, batch_refused)
  WHERE bulk = 1 AND status IN ('enqueued', 'processing');
CREATE INDEX outbox_batch ON outbox (batch_id, settled_at) WHERE batch_id IS NOT NULL;

-- The batch whose call it was, NULL for a call of one mail. Each member of a batch has an attempt of its own.
ALTER TABLE attempts ADD COLUMN batch_id TEXT;
CREATE INDEX attempts_refused ON attempts (batch_id) WHERE batch_id IS NOT NULL AND outcome = 'refused';

-- A mail goes out with its batch, or alone where it has none; never the one beside the other.
CREATE TRIGGER attempts_keep_to_the_batch BEFORE INSERT ON attempts
WHEN (SELECT o.batch_id FROM outbox o WHERE o.id = NEW.outbox_id) IS NOT NEW.batch_id
BEGIN
  SELECT raise(ABORT, 'an attempt beside the batch');
END;

-- The window of a key counts from the attempts under that key. What was tried under the key of a batch that was given up
-- is known not to have been accepted.
DROP TRIGGER attempts_opened;
DROP TRIGGER attempts_closed;
CREATE TRIGGER attempts_opened AFTER INSERT ON attempts BEGIN
  UPDATE outbox SET
    doubts = (SELECT count(*) FROM attempts a WHERE a.outbox_id = NEW.outbox_id AND a.ruled_out_at IS NULL
      AND (a.outcome IS NULL OR a.outcome IN ('ambiguous', 'in_progress', 'payload_conflict'))),
    window_anchor_at = (SELECT min(a.opened_at) FROM attempts a WHERE a.outbox_id = NEW.outbox_id
      AND a.batch_id IS outbox.batch_id
      AND (a.outcome IS NULL OR a.outcome NOT IN ('throttled', 'not_sent')))
  WHERE id = NEW.outbox_id;
END;
CREATE TRIGGER attempts_closed AFTER UPDATE OF outcome, ruled_out_at ON attempts BEGIN
  UPDATE outbox SET
    doubts = (SELECT count(*) FROM attempts a WHERE a.outbox_id = NEW.outbox_id AND a.ruled_out_at IS NULL
      AND (a.outcome IS NULL OR a.outcome IN ('ambiguous', 'in_progress', 'payload_conflict'))),
    window_anchor_at = (SELECT min(a.opened_at) FROM attempts a WHERE a.outbox_id = NEW.outbox_id
      AND a.batch_id IS outbox.batch_id
      AND (a.outcome IS NULL OR a.outcome NOT IN ('throttled', 'not_sent')))
  WHERE id = NEW.outbox_id;
END;

-- A batch is given up only where every attempt is known not to have been accepted, and then all of it at once.
CREATE TRIGGER batches_in_doubt_stay BEFORE UPDATE OF dissolved_at ON provider_batches
WHEN OLD.dissolved_at IS NOT NULL OR EXISTS (SELECT 1 FROM outbox m WHERE m.batch_id = OLD.id
  AND (m.doubts > 0 OR m.status IN ('sent', 'unknown') OR m.claim_expires_at > NEW.dissolved_at))
BEGIN
  SELECT raise(ABORT, 'a batch that may have been accepted');
END;
CREATE TRIGGER batches_dissolved AFTER UPDATE OF dissolved_at ON provider_batches BEGIN
  INSERT INTO events (outbox_id, from_status, to_status, cause, at)
    SELECT m.id, m.status, m.status, 'batch_dissolved', NEW.dissolved_at FROM outbox m
    WHERE m.batch_id = NEW.id AND m.settled_at IS NULL;
  UPDATE outbox SET batch_id = NULL, batch_position = NULL, batch_refused = max(batch_refused, NEW.refused),
    seal_sha256 = NULL, seal_bytes = NULL, template_version = NULL, provider = NULL, provider_scope = NULL,
    window_anchor_at = NULL, updated_at = NEW.dissolved_at
  WHERE batch_id = NEW.id AND settled_at IS NULL;
  DELETE FROM batch_seals WHERE batch_id = NEW.id;
END;

-- What was frozen stays frozen; but for a batch that is given up, above.
CREATE TRIGGER seals_stay BEFORE UPDATE OF seal_sha256, batch_id ON outbox
WHEN OLD.seal_sha256 IS NOT NULL
  AND (NEW.seal_sha256 IS NOT OLD.seal_sha256 OR NEW.batch_id IS NOT OLD.batch_id)
  AND (OLD.doubts > 0 OR OLD.batch_id IS NULL OR NOT EXISTS
    (SELECT 1 FROM provider_batches b WHERE b.id = OLD.batch_id AND b.dissolved_at IS NOT NULL))
BEGIN
  SELECT raise(ABORT, 'a seal is set once');
END;

-- What is frozen with others cannot be called off by itself: it is too late.
CREATE TRIGGER members_are_not_called_off BEFORE UPDATE OF status ON outbox
WHEN NEW.status = 'canceled' AND OLD.batch_id IS NOT NULL AND NEW.cause <> 'first_was_sent'
BEGIN
  SELECT raise(IGNORE);
END;

-- No longer open: nobody could send it any more, so it names its account as every other row does.
CREATE TRIGGER members_name_their_account AFTER UPDATE OF status ON outbox
WHEN NEW.batch_id IS NOT NULL AND OLD.relay_at IS NOT NULL AND NEW.relay_at IS NULL
BEGIN
  UPDATE outbox SET provider_scope = (SELECT b.provider_scope FROM provider_batches b WHERE b.id = NEW.batch_id)
  WHERE id = NEW.id;
END;

-- The bytes of a batch go with its last member: settled, or decided about and past the retention.
CREATE TRIGGER members_settled AFTER UPDATE OF status ON outbox
WHEN NEW.batch_id IS NOT NULL AND NEW.settled_at IS NOT NULL AND OLD.settled_at IS NULL
BEGIN
  DELETE FROM batch_seals WHERE batch_id = NEW.batch_id AND NOT EXISTS
    (SELECT 1 FROM outbox m WHERE m.batch_id = NEW.batch_id AND m.settled_at IS NULL AND m.letter_gone = 0);
END;
CREATE TRIGGER members_forgotten AFTER UPDATE OF letter_gone ON outbox
WHEN NEW.batch_id IS NOT NULL AND NEW.letter_gone = 1
BEGIN
  DELETE FROM batch_seals WHERE batch_id = NEW.batch_id AND NOT EXISTS
    (SELECT 1 FROM outbox m WHERE m.batch_id = NEW.batch_id AND m.settled_at IS NULL AND m.letter_gone = 0);
END;

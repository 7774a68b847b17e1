-- The outbox and everything one mail needs on its way.
-- Times are integer Unix milliseconds, always bound by the program: no column has a time default.
-- STRICT keeps a text that looks like a number out of an integer column.

CREATE TABLE outbox (
  -- The order of publication. Queues keep no order, so nothing else is promised by it.
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  -- Family prefix and random part; legal as a provider tag.
  id TEXT NOT NULL UNIQUE CHECK (length(id) BETWEEN 8 AND 64),
  family TEXT NOT NULL,
  -- NULL where the caller sent ready content.
  template TEXT,
  -- The version that sealed the mail, or the one that could not render it.
  template_version TEXT,
  revision INTEGER NOT NULL DEFAULT 0 CHECK (revision >= 0),
  resend INTEGER NOT NULL DEFAULT 0 CHECK (resend >= 0),
  fingerprint TEXT NOT NULL,
  fingerprint_version INTEGER NOT NULL,
  fingerprint_secret_id TEXT NOT NULL,
  recipient_hash TEXT NOT NULL,
  -- Goes to the provider with every attempt; never changes.
  idempotency_key TEXT NOT NULL UNIQUE,
  status TEXT NOT NULL CHECK (status IN (
    'pending', 'enqueued', 'processing', 'retry',
    'sent', 'failed', 'suppressed', 'expired', 'canceled', 'external', 'shadowed',
    'dead_letter', 'unknown')),
  -- Why the row is in this state: a code of ours.
  cause TEXT NOT NULL,
  -- Whose dead letter: the pipeline failed (ours to mend) or the recipient's mail was refused.
  dead_class TEXT CHECK (dead_class IN ('pipeline', 'recipient')),
  delivery TEXT,
  claim_token TEXT,
  claim_expires_at INTEGER,
  -- How often the row was claimed. It tells a late writer that the row has moved on.
  claim_count INTEGER NOT NULL DEFAULT 0,
  -- 1: its last claim ended without a settle, so it runs alone next time.
  suspect INTEGER NOT NULL DEFAULT 0 CHECK (suspect IN (0, 1)),
  -- 1: the current claim runs alone.
  lone_claim INTEGER NOT NULL DEFAULT 0 CHECK (lone_claim IN (0, 1)),
  -- How often a claim that ran alone ended without a settle.
  lone_deaths INTEGER NOT NULL DEFAULT 0,
  -- Tries that count against the family's limit.
  attempt_count INTEGER NOT NULL DEFAULT 0,
  publish_count INTEGER NOT NULL DEFAULT 0,
  -- The relay leaves the row alone until then. Every open row has one, so none can be forgotten.
  relay_at INTEGER,
  next_attempt_at INTEGER,
  not_before INTEGER,
  not_after INTEGER,
  -- Attempts that may have been accepted; kept by the triggers on attempts.
  doubts INTEGER NOT NULL DEFAULT 0,
  -- When the provider may first have seen the key: the provider window counts from here. Kept by the same triggers.
  window_anchor_at INTEGER,
  letter_bytes INTEGER NOT NULL CHECK (letter_bytes > 0),
  -- Set once. A row that has it and lacks its seal is never rendered again.
  seal_sha256 TEXT,
  seal_bytes INTEGER,
  provider TEXT,
  provider_scope TEXT,
  provider_message_id TEXT,
  -- A code, never a text from outside.
  last_error TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  settled_at INTEGER,
  -- When everything but the row and its keys was removed. What stays is a tombstone: a replay in a year is a duplicate.
  pruned_at INTEGER,

  CONSTRAINT claim_belongs_to_processing CHECK ((status = 'processing') = (claim_token IS NOT NULL)),
  CONSTRAINT claim_has_an_end CHECK ((claim_token IS NULL) = (claim_expires_at IS NULL)),
  CONSTRAINT retry_has_a_time CHECK ((status = 'retry') = (next_attempt_at IS NOT NULL)),
  CONSTRAINT open_rows_are_watched CHECK
    ((status IN ('pending', 'enqueued', 'processing', 'retry')) = (relay_at IS NOT NULL)),
  CONSTRAINT settled_rows_say_when CHECK
    ((status IN ('sent', 'failed', 'suppressed', 'expired', 'canceled', 'external', 'shadowed')) = (settled_at IS NOT NULL)),
  CONSTRAINT sent_has_proof CHECK (status <> 'sent' OR provider_message_id IS NOT NULL),
  CONSTRAINT nothing_takes_sent_back CHECK (provider_message_id IS NULL OR status = 'sent'),
  CONSTRAINT doubt_is_never_called_failure CHECK
    (doubts = 0 OR status NOT IN ('failed', 'suppressed', 'expired', 'canceled', 'external', 'shadowed', 'dead_letter')),
  CONSTRAINT dead_letters_have_a_class CHECK ((status = 'dead_letter') = (dead_class IS NOT NULL)),
  CONSTRAINT seals_name_their_provider CHECK
    (seal_sha256 IS NULL OR (provider IS NOT NULL AND provider_scope IS NOT NULL AND seal_bytes IS NOT NULL)),
  CONSTRAINT only_settled_rows_are_pruned CHECK (pruned_at IS NULL OR settled_at IS NOT NULL),
  CONSTRAINT window_is_not_empty CHECK (not_before IS NULL OR not_after IS NULL OR not_before < not_after)
) STRICT;

-- What the relay has to look at, oldest first. Settled rows are not in it.
CREATE INDEX outbox_due ON outbox (relay_at, seq) WHERE relay_at IS NOT NULL;
-- Settled rows whose letters, attempts and events are still there, oldest first.
CREATE INDEX outbox_prunable ON outbox (settled_at) WHERE settled_at IS NOT NULL AND pruned_at IS NULL;
-- Dead letters that a later version of the program may be able to read.
CREATE INDEX outbox_unreadable ON outbox (family, template, seq) WHERE status = 'dead_letter' AND dead_class = 'pipeline';
-- One provider message is one mail, within the account that gave the id.
CREATE UNIQUE INDEX outbox_message ON outbox (provider, provider_scope, provider_message_id)
  WHERE provider_message_id IS NOT NULL;

-- One row per accepted secret: while secrets are rotated, any of them finds the duplicate.
CREATE TABLE intent_keys (
  key TEXT NOT NULL PRIMARY KEY,
  secret_id TEXT NOT NULL,
  outbox_id TEXT NOT NULL REFERENCES outbox (id)
) STRICT, WITHOUT ROWID;

-- Personal data: who the mail is for and what it says.
CREATE TABLE letters (
  outbox_id TEXT NOT NULL PRIMARY KEY REFERENCES outbox (id),
  body TEXT NOT NULL
) STRICT;

-- Personal data: the request body, byte for byte, as every attempt sends it.
CREATE TABLE seals (
  outbox_id TEXT NOT NULL PRIMARY KEY REFERENCES outbox (id),
  sha256 TEXT NOT NULL,
  body TEXT NOT NULL
) STRICT;

CREATE TABLE attempts (
  id TEXT NOT NULL PRIMARY KEY,
  outbox_id TEXT NOT NULL REFERENCES outbox (id),
  claim_token TEXT NOT NULL,
  opened_at INTEGER NOT NULL,
  -- The pace's slot: the call is not made before.
  planned_at INTEGER NOT NULL,
  closed_at INTEGER,
  outcome TEXT CHECK (outcome IN (
    'accepted', 'refused', 'throttled', 'not_sent', 'ambiguous', 'in_progress', 'payload_conflict')),
  http_status INTEGER,
  error TEXT,
  CONSTRAINT closed_attempts_have_an_outcome CHECK ((closed_at IS NULL) = (outcome IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX attempts_of_row ON attempts (outbox_id, opened_at);

-- Append only; written by the triggers below.
CREATE TABLE events (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  outbox_id TEXT NOT NULL,
  from_status TEXT,
  to_status TEXT NOT NULL,
  cause TEXT NOT NULL,
  at INTEGER NOT NULL
) STRICT;
CREATE INDEX events_of_row ON events (outbox_id, seq);

CREATE TABLE suppressions (
  recipient_hash TEXT NOT NULL,
  -- '*' for every family.
  family TEXT NOT NULL,
  reason TEXT NOT NULL,
  until INTEGER,
  lifted_at INTEGER,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (recipient_hash, family)
) STRICT, WITHOUT ROWID;

CREATE TABLE pauses (
  -- '*' for everything, or a family.
  scope TEXT NOT NULL PRIMARY KEY,
  reason TEXT NOT NULL,
  until INTEGER NOT NULL,
  -- How often in a row the pause was renewed: it grows the next one.
  strikes INTEGER NOT NULL DEFAULT 1,
  -- The claim that may try a single mail while everybody else still waits.
  probe_token TEXT,
  created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One row per provider: when the next call may be made.
CREATE TABLE pace (
  name TEXT NOT NULL PRIMARY KEY,
  next_free_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Input that nobody understood, de-duplicated by the hash of its body. May hold personal data.
CREATE TABLE parking (
  hash TEXT NOT NULL PRIMARY KEY,
  source TEXT NOT NULL,
  reason TEXT NOT NULL,
  body TEXT NOT NULL,
  body_bytes INTEGER NOT NULL,
  times INTEGER NOT NULL DEFAULT 1,
  first_seen_at INTEGER NOT NULL,
  last_seen_at INTEGER NOT NULL
) STRICT;

-- One row: what the last tick of the relay saw.
CREATE TABLE relay_health (
  id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
  last_tick_at INTEGER NOT NULL,
  published INTEGER NOT NULL,
  settled INTEGER NOT NULL,
  remaining INTEGER NOT NULL,
  broker_error TEXT
) STRICT;

-- Nothing can be inserted here. A statement that tries aborts its transaction; its position says which rule it was.
CREATE TABLE guards (
  broken TEXT NOT NULL CONSTRAINT guard CHECK (broken IS NULL)
) STRICT;

-- The row's doubts and its provider window follow from its attempts, whoever writes them.
CREATE TRIGGER attempts_opened AFTER INSERT ON attempts BEGIN
  UPDATE outbox SET
    doubts = (SELECT count(*) FROM attempts a WHERE a.outbox_id = NEW.outbox_id
      AND (a.outcome IS NULL OR a.outcome IN ('ambiguous', 'in_progress', 'payload_conflict'))),
    window_anchor_at = (SELECT min(a.opened_at) FROM attempts a WHERE a.outbox_id = NEW.outbox_id
      AND (a.outcome IS NULL OR a.outcome NOT IN ('throttled', 'not_sent')))
  WHERE id = NEW.outbox_id;
END;
CREATE TRIGGER attempts_closed AFTER UPDATE OF outcome ON attempts BEGIN
  UPDATE outbox SET
    doubts = (SELECT count(*) FROM attempts a WHERE a.outbox_id = NEW.outbox_id
      AND (a.outcome IS NULL OR a.outcome IN ('ambiguous', 'in_progress', 'payload_conflict'))),
    window_anchor_at = (SELECT min(a.opened_at) FROM attempts a WHERE a.outbox_id = NEW.outbox_id
      AND (a.outcome IS NULL OR a.outcome NOT IN ('throttled', 'not_sent')))
  WHERE id = NEW.outbox_id;
END;

CREATE TRIGGER outbox_recorded AFTER INSERT ON outbox BEGIN
  INSERT INTO events (outbox_id, from_status, to_status, cause, at)
  VALUES (NEW.id, NULL, NEW.status, NEW.cause, NEW.created_at);
END;
CREATE TRIGGER outbox_moved AFTER UPDATE OF status, claim_token, next_attempt_at ON outbox
WHEN OLD.status <> NEW.status
  OR OLD.claim_token IS NOT NEW.claim_token
  OR OLD.next_attempt_at IS NOT NEW.next_attempt_at
BEGIN
  INSERT INTO events (outbox_id, from_status, to_status, cause, at)
  VALUES (NEW.id, OLD.status, NEW.status, NEW.cause, NEW.updated_at);
END;

-- A seal goes only in the UPDATE that settles its row; where a person is asked, it stays.
CREATE TRIGGER outbox_settled AFTER UPDATE OF status ON outbox
WHEN NEW.settled_at IS NOT NULL AND OLD.settled_at IS NULL
BEGIN
  DELETE FROM seals WHERE outbox_id = NEW.id;
END;

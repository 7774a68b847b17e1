-- Hearing back: delivery news, suppressions with their history, what people decided, and what nobody understood.
-- Everything is added; a program that was made for the schema before goes on working beside it.

-- What happened after acceptance is a fact of its own, beside the state. `delivery` is the word, these say since when,
-- how much it weighs against other news, and of which kind a bounce was.
ALTER TABLE outbox ADD COLUMN delivery_at INTEGER
  CONSTRAINT delivery_says_when CHECK ((delivery_at IS NULL) = (delivery IS NULL));
ALTER TABLE outbox ADD COLUMN delivery_rank INTEGER
  CONSTRAINT delivery_has_a_rank CHECK ((delivery_rank IS NULL) = (delivery IS NULL));
ALTER TABLE outbox ADD COLUMN delivery_detail TEXT
  CONSTRAINT delivery_follows_acceptance CHECK (delivery IS NULL OR (status = 'sent' AND delivery IN (
    'scheduled', 'sent', 'delayed', 'delivered', 'failed', 'suppressed', 'bounced', 'complained')));
-- The row that a person wanted sent once more, although nobody knows what became of it.
ALTER TABLE outbox ADD COLUMN resend_of TEXT
  CONSTRAINT resends_count CHECK (resend_of IS NULL OR resend > 0);
-- A person has decided about a row that stays unknown: it no longer asks.
ALTER TABLE outbox ADD COLUMN resolved_at INTEGER
  CONSTRAINT only_unknown_rows_are_resolved CHECK (resolved_at IS NULL OR status IN ('unknown', 'sent'));
-- When the provider is next asked about an unknown row, and how often it was. NULL: at the next chance.
ALTER TABLE outbox ADD COLUMN look_up_at INTEGER;
ALTER TABLE outbox ADD COLUMN look_ups INTEGER NOT NULL DEFAULT 0;
-- 1: a resolved row's letter and seal were removed after the retention.
ALTER TABLE outbox ADD COLUMN letter_gone INTEGER NOT NULL DEFAULT 0 CHECK (letter_gone IN (0, 1));

-- A second click on "send again" finds the first one's row.
CREATE UNIQUE INDEX outbox_resends ON outbox (resend_of) WHERE resend_of IS NOT NULL;
-- Rows that ask for a person, oldest first.
CREATE INDEX outbox_unknown ON outbox (seq) WHERE status = 'unknown' AND resolved_at IS NULL;
CREATE INDEX outbox_dead ON outbox (seq) WHERE status = 'dead_letter';
CREATE INDEX outbox_look_up ON outbox (look_up_at, seq) WHERE status = 'unknown' AND resolved_at IS NULL;
-- Resolved rows whose letters are still there.
CREATE INDEX outbox_resolved ON outbox (resolved_at) WHERE resolved_at IS NOT NULL AND letter_gone = 0;
-- What still waits for one recipient, by family: an unsubscription ends it.
CREATE INDEX outbox_waiting ON outbox (recipient_hash, family) WHERE relay_at IS NOT NULL;

-- What the provider answered this very attempt, also where the row could not take it.
ALTER TABLE attempts ADD COLUMN provider_message_id TEXT;
-- A person said that nothing went out through it: it no longer leaves a doubt.
ALTER TABLE attempts ADD COLUMN ruled_out_at INTEGER;

DROP TRIGGER attempts_opened;
DROP TRIGGER attempts_closed;
CREATE TRIGGER attempts_opened AFTER INSERT ON attempts BEGIN
  UPDATE outbox SET
    doubts = (SELECT count(*) FROM attempts a WHERE a.outbox_id = NEW.outbox_id AND a.ruled_out_at IS NULL
      AND (a.outcome IS NULL OR a.outcome IN ('ambiguous', 'in_progress', 'payload_conflict'))),
    window_anchor_at = (SELECT min(a.opened_at) FROM attempts a WHERE a.outbox_id = NEW.outbox_id
      AND (a.outcome IS NULL OR a.outcome NOT IN ('throttled', 'not_sent')))
  WHERE id = NEW.outbox_id;
END;
CREATE TRIGGER attempts_closed AFTER UPDATE OF outcome, ruled_out_at ON attempts BEGIN
  UPDATE outbox SET
    doubts = (SELECT count(*) FROM attempts a WHERE a.outbox_id = NEW.outbox_id AND a.ruled_out_at IS NULL
      AND (a.outcome IS NULL OR a.outcome IN ('ambiguous', 'in_progress', 'payload_conflict'))),
    window_anchor_at = (SELECT min(a.opened_at) FROM attempts a WHERE a.outbox_id = NEW.outbox_id
      AND (a.outcome IS NULL OR a.outcome NOT IN ('throttled', 'not_sent')))
  WHERE id = NEW.outbox_id;
END;

-- Signed events of the provider, reduced to what is no personal data.
CREATE TABLE receipts (
  -- The event's id: the same for every repetition and replay of it.
  event_id TEXT NOT NULL PRIMARY KEY CHECK (length(event_id) BETWEEN 1 AND 256),
  news TEXT NOT NULL CHECK (news IN ('scheduled', 'sent', 'delayed', 'delivered', 'opened', 'clicked',
    'failed', 'suppressed', 'bounced', 'complained')),
  -- Of a bounce: its kind.
  detail TEXT CHECK (detail IN ('permanent', 'transient', 'undetermined')),
  -- When it happened, by the provider's clock.
  at INTEGER NOT NULL,
  received_at INTEGER NOT NULL,
  provider TEXT NOT NULL,
  provider_scope TEXT NOT NULL,
  message_id TEXT,
  -- The outbox id that the mail carries.
  tagged_id TEXT,
  -- The one recipient that it names; NULL where it names none or several.
  recipient_hash TEXT,
  -- 1: it names nobody, so the row's one recipient is meant.
  of_the_row INTEGER NOT NULL DEFAULT 0 CHECK (of_the_row IN (0, 1)),
  -- The row it belongs to; NULL while it waits for one.
  outbox_id TEXT REFERENCES outbox (id),
  -- When its effects were written: in the same transaction as this.
  processed_at INTEGER,
  CONSTRAINT receipts_name_a_mail CHECK (message_id IS NOT NULL OR tagged_id IS NOT NULL),
  CONSTRAINT only_matched_receipts_are_processed CHECK (processed_at IS NULL OR outbox_id IS NOT NULL)
) STRICT, WITHOUT ROWID;
CREATE INDEX receipts_of_row ON receipts (outbox_id, at) WHERE outbox_id IS NOT NULL;
CREATE INDEX receipts_unprocessed ON receipts (outbox_id) WHERE outbox_id IS NOT NULL AND processed_at IS NULL;
CREATE INDEX receipts_waiting ON receipts (message_id) WHERE outbox_id IS NULL;
CREATE INDEX receipts_waiting_since ON receipts (received_at) WHERE outbox_id IS NULL;
CREATE INDEX receipts_old ON receipts (received_at);

-- When the fact behind a suppression happened.
ALTER TABLE suppressions ADD COLUMN fact_at INTEGER;
-- The newest of the provider's news that the entry knows of, also where somebody lifted it since: what is not newer, such
-- as the same news told once more, changes nothing.
ALTER TABLE suppressions ADD COLUMN news_at INTEGER;
-- The mail whose news it was.
ALTER TABLE suppressions ADD COLUMN outbox_id TEXT;

-- Append only; written by the triggers below.
CREATE TABLE suppression_history (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  recipient_hash TEXT NOT NULL,
  family TEXT NOT NULL,
  change TEXT NOT NULL CHECK (change IN ('suppressed', 'lifted')),
  reason TEXT NOT NULL,
  until INTEGER,
  outbox_id TEXT,
  at INTEGER NOT NULL
) STRICT;
CREATE INDEX suppression_history_of ON suppression_history (recipient_hash, seq);
CREATE TRIGGER suppressions_made AFTER INSERT ON suppressions BEGIN
  INSERT INTO suppression_history (recipient_hash, family, change, reason, until, outbox_id, at)
  VALUES (NEW.recipient_hash, NEW.family, 'suppressed', NEW.reason, NEW.until, NEW.outbox_id, NEW.created_at);
END;
CREATE TRIGGER suppressions_changed AFTER UPDATE ON suppressions
WHEN OLD.lifted_at IS NOT NEW.lifted_at OR OLD.until IS NOT NEW.until OR OLD.reason <> NEW.reason
BEGIN
  INSERT INTO suppression_history (recipient_hash, family, change, reason, until, outbox_id, at)
  VALUES (NEW.recipient_hash, NEW.family, CASE WHEN NEW.lifted_at IS NULL THEN 'suppressed' ELSE 'lifted' END,
    NEW.reason, NEW.until, NEW.outbox_id, coalesce(NEW.lifted_at, NEW.created_at));
END;

-- Where the input came from more exactly: the event's id, the row's id.
ALTER TABLE parking ADD COLUMN origin TEXT;
ALTER TABLE parking ADD COLUMN state TEXT NOT NULL DEFAULT 'parked' CHECK (state IN ('parked', 'replayed', 'discarded'));
ALTER TABLE parking ADD COLUMN closed_at INTEGER
  CONSTRAINT closed_entries_say_when CHECK ((closed_at IS NULL) = (state = 'parked'));
CREATE INDEX parking_open ON parking (first_seen_at, hash) WHERE state = 'parked';

-- What people did, and why.
CREATE TABLE operator_log (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  -- Which token it was: the beginning of its hash.
  operator TEXT NOT NULL,
  action TEXT NOT NULL,
  -- The row, the entry, the recipient's hash.
  subject TEXT NOT NULL,
  result TEXT NOT NULL,
  note TEXT CHECK (note IS NULL OR length(note) <= 1000)
) STRICT;
CREATE INDEX operator_log_of ON operator_log (subject, seq);

-- News of a delivery moves nothing; it is written down beside the changes of state.
CREATE TRIGGER outbox_news AFTER UPDATE OF delivery ON outbox
WHEN NEW.delivery IS NOT NULL AND OLD.delivery IS NOT NEW.delivery
BEGIN
  INSERT INTO events (outbox_id, from_status, to_status, cause, at)
  VALUES (NEW.id, NEW.status, NEW.status, 'delivery_' || NEW.delivery, NEW.updated_at);
END;
-- So is a person's word on a row that stays as it is.
CREATE TRIGGER outbox_resolved_by AFTER UPDATE OF resolved_at ON outbox
WHEN OLD.resolved_at IS NULL AND NEW.resolved_at IS NOT NULL
BEGIN
  INSERT INTO events (outbox_id, from_status, to_status, cause, at)
  VALUES (NEW.id, NEW.status, NEW.status, NEW.cause, NEW.updated_at);
END;

-- A row that this program cannot read stands in the same list as all that nobody understood, until it goes on.
CREATE TRIGGER outbox_not_understood AFTER UPDATE OF status ON outbox
WHEN NEW.status = 'dead_letter' AND NEW.dead_class = 'pipeline' AND OLD.status <> 'dead_letter'
BEGIN
  INSERT INTO parking (hash, source, reason, body, body_bytes, origin, first_seen_at, last_seen_at)
  VALUES ('row-' || NEW.id, 'outbox', NEW.cause, '', 0, NEW.id, NEW.updated_at, NEW.updated_at)
  ON CONFLICT (hash) DO UPDATE SET reason = excluded.reason, times = times + 1,
    last_seen_at = excluded.last_seen_at, state = 'parked', closed_at = NULL;
END;
CREATE TRIGGER outbox_understood AFTER UPDATE OF status ON outbox
WHEN OLD.status = 'dead_letter' AND NEW.status <> 'dead_letter'
BEGIN
  UPDATE parking SET state = 'replayed', closed_at = NEW.updated_at
  WHERE hash = 'row-' || NEW.id AND state = 'parked';
END;

-- What has been decided about, in the order in which it was: it is listed, and removed after the retention.
CREATE INDEX parking_closed ON parking (closed_at, hash) WHERE state <> 'parked';

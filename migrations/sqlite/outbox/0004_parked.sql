-- Rows that cannot go now have a row of their own here, with one state and one time. A relay of a build before this one
-- does not know of it: stop it before this runs.

-- `state`: `ready` goes as soon as its destination has room; `scheduled` and `retry` go at `due_at`; `waiting` goes when its
-- destination works or its topic is there; `behind` waits for a row before it of its aggregate; `parked` waits for a person.
-- `destination`: by which the relay finds what may go: `kafka`, `kafka:TOPIC` for a topic that is missing, `NAME`, or
-- `NAME/SCOPE`. `claimed_by`: the turn in whose memory it is; a decision about it is refused meanwhile.
-- An event that was discarded has `parked_at` and `discarded_at`, and no row here.
CREATE TABLE outbox_parked (
    seq            INTEGER PRIMARY KEY,
    claimed_by     INTEGER,
    due_at         INTEGER,
    parked_at      INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER)),
    attempts       INTEGER NOT NULL DEFAULT 0,
    state          TEXT NOT NULL CHECK (state IN ('ready', 'scheduled', 'retry', 'waiting', 'behind', 'parked')),
    destination    TEXT NOT NULL,
    aggregate_type TEXT NOT NULL,
    aggregate_id   TEXT NOT NULL,
    error          TEXT,
    CONSTRAINT outbox_parked_due CHECK ((due_at IS NULL) = (state IN ('behind', 'parked')))
) STRICT;

-- What the build before has released while rows behind it were still held goes before these, and so from here, too.
UPDATE outbox_events AS u SET failed_at = CAST(unixepoch('subsec') * 1000 AS INTEGER), held = 1
WHERE u.sent_at IS NULL AND u.failed_at IS NULL AND EXISTS (SELECT 1 FROM outbox_events h
    WHERE h.failed_at IS NOT NULL AND h.discarded_at IS NULL AND h.sent_at IS NULL AND h.held = 1 AND h.seq > u.seq
    AND h.aggregate_type = u.aggregate_type AND h.aggregate_id = u.aggregate_id);
INSERT INTO outbox_parked (seq, due_at, parked_at, attempts, state, destination, aggregate_type, aggregate_id, error)
SELECT seq,
    CASE WHEN held = 1 THEN NULL WHEN waits_for IS NOT NULL THEN CAST(unixepoch('subsec') * 1000 AS INTEGER) ELSE retry_at END,
    failed_at, attempts,
    CASE WHEN held = 1 THEN 'behind' WHEN waits_for IS NOT NULL THEN 'waiting' WHEN retry_at IS NULL THEN 'parked'
        WHEN attempts = 0 THEN 'scheduled' ELSE 'retry' END,
    CASE WHEN waits_for LIKE 'destination %' THEN 'kafka' WHEN waits_for IS NOT NULL THEN 'kafka:' || waits_for ELSE 'kafka' END,
    aggregate_type, aggregate_id, error
FROM outbox_events WHERE failed_at IS NOT NULL AND discarded_at IS NULL AND sent_at IS NULL;
CREATE INDEX outbox_parked_aggregates ON outbox_parked (aggregate_type, aggregate_id, seq);
CREATE INDEX outbox_parked_dues ON outbox_parked (destination, due_at, seq) WHERE due_at IS NOT NULL;
CREATE INDEX outbox_parked_claims ON outbox_parked (claimed_by) WHERE claimed_by IS NOT NULL;
-- What people and metrics count.
CREATE INDEX outbox_parked_states ON outbox_parked (state, seq);
-- What is behind no other row: it was to be released, which nothing but its state says from now on.
UPDATE outbox_parked AS p SET state = 'ready', due_at = CAST(unixepoch('subsec') * 1000 AS INTEGER)
WHERE p.state = 'behind' AND NOT EXISTS (SELECT 1 FROM outbox_parked f
    WHERE f.aggregate_type = p.aggregate_type AND f.aggregate_id = p.aggregate_id AND f.seq < p.seq);

-- outbox_events_unsent stays, and its condition says `parked_at` from now on.
DROP INDEX outbox_events_failed;
DROP INDEX outbox_events_heads;
DROP INDEX outbox_events_waits;
DROP INDEX outbox_events_retries;
DROP INDEX outbox_events_set_aside;
ALTER TABLE outbox_events RENAME COLUMN failed_at TO parked_at;
ALTER TABLE outbox_events DROP COLUMN error;
ALTER TABLE outbox_events DROP COLUMN held;
ALTER TABLE outbox_events DROP COLUMN waits_for;
ALTER TABLE outbox_events DROP COLUMN attempts;
ALTER TABLE outbox_events DROP COLUMN retry_at;
DROP TABLE outbox_releases;

-- On PostgreSQL several relays share an outbox. A file has one relay at a time.
ALTER TABLE outbox_relays ADD COLUMN shards INTEGER NOT NULL DEFAULT 65535 CHECK (shards = 65535);

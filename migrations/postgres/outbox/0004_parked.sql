-- Rows that cannot go now have a row of their own, with one state and one time; and several relays share an outbox. A relay
-- of a build before this one knows of neither: stop it before this runs.

-- `state`: `ready` goes as soon as its destination has room; `scheduled` and `retry` go at `due_at`; `waiting` goes when its
-- destination works or its topic is there; `behind` waits for a row before it of its aggregate; `parked` waits for a person.
-- `destination`: by which the relay finds what may go: `kafka`, `kafka:TOPIC` for a topic that is missing, `NAME`, or
-- `NAME/SCOPE`. `claimed_by`: the turn in whose memory it is; a decision about it is refused meanwhile.
-- An event that was discarded has `parked_at` and `discarded_at`, and no row here.
CREATE TABLE outbox_parked (
    seq            bigint PRIMARY KEY,
    claimed_by     bigint,
    due_at         timestamptz,
    parked_at      timestamptz NOT NULL DEFAULT now(),
    attempts       integer NOT NULL DEFAULT 0,
    state          text NOT NULL CHECK (state IN ('ready', 'scheduled', 'retry', 'waiting', 'behind', 'parked')),
    destination    text NOT NULL,
    aggregate_type text NOT NULL,
    aggregate_id   text NOT NULL,
    error          text,
    shard          smallint NOT NULL
        GENERATED ALWAYS AS ((hashtextextended(aggregate_type || '/' || aggregate_id, 0) & 15)::smallint) STORED,
    CONSTRAINT outbox_parked_due CHECK ((due_at IS NULL) = (state IN ('behind', 'parked')))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- What the build before has released while rows behind it were still held goes before these, and so from here, too.
UPDATE outbox_events u SET failed_at = now(), held = true
WHERE u.sent_at IS NULL AND u.failed_at IS NULL AND EXISTS (SELECT FROM outbox_events h
    WHERE h.failed_at IS NOT NULL AND h.discarded_at IS NULL AND h.sent_at IS NULL AND h.held AND h.seq > u.seq
    AND h.aggregate_type = u.aggregate_type AND h.aggregate_id = u.aggregate_id);
INSERT INTO outbox_parked (seq, due_at, parked_at, attempts, state, destination, aggregate_type, aggregate_id, error)
SELECT seq,
    CASE WHEN held THEN NULL WHEN waits_for IS NOT NULL THEN now() ELSE retry_at END,
    failed_at, attempts,
    CASE WHEN held THEN 'behind' WHEN waits_for IS NOT NULL THEN 'waiting' WHEN retry_at IS NULL THEN 'parked'
        WHEN attempts = 0 THEN 'scheduled' ELSE 'retry' END,
    CASE WHEN waits_for LIKE 'destination %' THEN 'kafka' WHEN waits_for IS NOT NULL THEN 'kafka:' || waits_for ELSE 'kafka' END,
    aggregate_type, aggregate_id, error
FROM outbox_events WHERE failed_at IS NOT NULL AND discarded_at IS NULL AND sent_at IS NULL;
CREATE INDEX outbox_parked_aggregates ON outbox_parked (aggregate_type, aggregate_id, seq);
CREATE INDEX outbox_parked_dues ON outbox_parked (destination, shard, due_at, seq) WHERE due_at IS NOT NULL;
CREATE INDEX outbox_parked_claims ON outbox_parked (claimed_by) WHERE claimed_by IS NOT NULL;
-- What people and metrics count.
CREATE INDEX outbox_parked_states ON outbox_parked (state, seq);
-- What is behind no other row: it was to be released, which nothing but its state says from now on.
UPDATE outbox_parked p SET state = 'ready', due_at = now() WHERE p.state = 'behind' AND NOT EXISTS (
    SELECT FROM outbox_parked f
    WHERE f.aggregate_type = p.aggregate_type AND f.aggregate_id = p.aggregate_id AND f.seq < p.seq);

-- outbox_events_unsent stays, and its condition says `parked_at` from now on.
DROP INDEX outbox_events_failed, outbox_events_heads, outbox_events_waits, outbox_events_retries, outbox_events_set_aside;
ALTER TABLE outbox_events RENAME COLUMN failed_at TO parked_at;
ALTER TABLE outbox_events DROP COLUMN error, DROP COLUMN held, DROP COLUMN waits_for, DROP COLUMN attempts,
    DROP COLUMN retry_at;
DROP TABLE outbox_releases;

-- A row of `outbox_relays` is a seat for one relay, and its `shards` say which aggregates are that relay's: bit n for those
-- whose hash is n. Each bit is set in one row. The numbers of turns differ by sixteen, so that none is given in two rows.
ALTER TABLE outbox_relays DROP CONSTRAINT outbox_relays_relay_ref_check;
ALTER TABLE outbox_relays ADD CONSTRAINT outbox_relays_relay_ref_check CHECK (relay_ref BETWEEN 1 AND 16),
    ADD COLUMN shards integer NOT NULL DEFAULT 0 CHECK (shards BETWEEN 0 AND 65535);
UPDATE outbox_relays SET shards = 65535, epoch = epoch * 16, token_epoch = NULL, lease_until = NULL, owner = NULL;
INSERT INTO outbox_relays (relay_ref, outbox_id, epoch)
SELECT n, r.outbox_id, n - 1 FROM generate_series(2, 16) n, outbox_relays r;

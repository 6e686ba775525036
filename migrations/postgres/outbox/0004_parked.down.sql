-- What is ready is unsent again; the rest is as the build before has it.
CREATE TABLE outbox_releases (
    release_ref    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    asked          bigint NOT NULL DEFAULT 1,
    aggregate_type text NOT NULL,
    aggregate_id   text NOT NULL,
    CONSTRAINT outbox_releases_aggregate UNIQUE (aggregate_type, aggregate_id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE outbox_events RENAME COLUMN parked_at TO failed_at;
ALTER TABLE outbox_events ADD COLUMN error text, ADD COLUMN held boolean NOT NULL DEFAULT false, ADD COLUMN waits_for text,
    ADD COLUMN attempts integer NOT NULL DEFAULT 0, ADD COLUMN retry_at timestamptz;
UPDATE outbox_events e SET failed_at = CASE WHEN p.state <> 'ready' THEN p.parked_at END,
    error = CASE WHEN p.state NOT IN ('ready', 'behind') THEN p.error END, held = p.state = 'behind', attempts = p.attempts,
    waits_for = CASE WHEN p.state <> 'waiting' THEN NULL WHEN p.destination LIKE 'kafka:%' THEN substr(p.destination, 7)
        ELSE 'destination ' || p.destination END,
    retry_at = CASE WHEN p.state IN ('scheduled', 'retry') THEN p.due_at END
FROM outbox_parked p WHERE e.seq = p.seq AND e.sent_at IS NULL AND e.discarded_at IS NULL;
INSERT INTO outbox_releases (aggregate_type, aggregate_id)
    SELECT DISTINCT aggregate_type, aggregate_id FROM outbox_parked WHERE state = 'ready';
DROP TABLE outbox_parked;
CREATE INDEX outbox_events_failed ON outbox_events (aggregate_type, aggregate_id, seq)
    WHERE failed_at IS NOT NULL AND discarded_at IS NULL;
CREATE INDEX outbox_events_heads ON outbox_events (seq)
    WHERE failed_at IS NOT NULL AND discarded_at IS NULL AND NOT held;
CREATE INDEX outbox_events_waits ON outbox_events (waits_for, seq) WHERE waits_for IS NOT NULL;
CREATE INDEX outbox_events_retries ON outbox_events (retry_at, seq)
    WHERE failed_at IS NOT NULL AND discarded_at IS NULL AND NOT held AND retry_at IS NOT NULL;
CREATE INDEX outbox_events_set_aside ON outbox_events (seq)
    WHERE failed_at IS NOT NULL AND discarded_at IS NULL AND NOT held AND retry_at IS NULL AND waits_for IS NULL;
DELETE FROM outbox_relays WHERE relay_ref > 1;
ALTER TABLE outbox_relays DROP COLUMN shards;
ALTER TABLE outbox_relays DROP CONSTRAINT outbox_relays_relay_ref_check,
    ADD CONSTRAINT outbox_relays_relay_ref_check CHECK (relay_ref = 1);
DELETE FROM outbox_schema_versions WHERE version = 4;

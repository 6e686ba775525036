-- What is held is only what stands behind a failed row: the build before finds that out at each look.
UPDATE outbox_events SET failed_at = NULL, held = 0 WHERE held = 1 AND discarded_at IS NULL;
DROP TABLE outbox_releases;
DROP INDEX outbox_events_waits;
DROP INDEX outbox_events_heads;
DROP TRIGGER outbox_events_headers;
ALTER TABLE outbox_events DROP COLUMN waits_for;
ALTER TABLE outbox_events DROP COLUMN held;
ALTER TABLE outbox_relays DROP COLUMN lease_ms;
ALTER TABLE outbox_relays DROP COLUMN token_epoch;
ALTER TABLE outbox_relays DROP COLUMN token;
DELETE FROM outbox_schema_versions WHERE version = 2;

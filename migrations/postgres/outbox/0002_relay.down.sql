-- What is held is only what stands behind a failed row: the build before finds that out at each look.
UPDATE outbox_events SET failed_at = NULL, held = false WHERE held AND discarded_at IS NULL;
DROP TABLE outbox_releases;
DROP INDEX outbox_events_waits, outbox_events_heads;
ALTER TABLE outbox_events DROP CONSTRAINT outbox_events_headers;
ALTER TABLE outbox_events DROP COLUMN headers_checked, DROP COLUMN waits_for, DROP COLUMN held;
ALTER TABLE outbox_relays DROP COLUMN lease_ms, DROP COLUMN token_epoch, DROP COLUMN token;
DELETE FROM outbox_schema_versions WHERE version = 2;

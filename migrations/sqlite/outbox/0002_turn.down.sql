ALTER TABLE outbox_relays DROP COLUMN lease_ms;
ALTER TABLE outbox_relays DROP COLUMN token_epoch;
ALTER TABLE outbox_relays DROP COLUMN token;
DELETE FROM outbox_schema_versions WHERE version = 2;

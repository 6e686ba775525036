ALTER TABLE outbox_relays DROP COLUMN lease_ms, DROP COLUMN token_epoch, DROP COLUMN token;
DELETE FROM outbox_schema_versions WHERE version = 2;

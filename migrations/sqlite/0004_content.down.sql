-- What is left of SHA-256 is other content to the builds before: second copies of those events are parked.
ALTER TABLE inbox_partitions DROP COLUMN id_scope_epoch;
ALTER TABLE inbox_events DROP COLUMN sha256;
ALTER TABLE inbox_parked DROP COLUMN sha256;
DELETE FROM inbox_schema_versions WHERE version = 4;

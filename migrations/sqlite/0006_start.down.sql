ALTER TABLE inbox_partitions DROP COLUMN partitions_at_start;
DELETE FROM inbox_schema_versions WHERE version = 6;

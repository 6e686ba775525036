DROP TABLE inbox_audit;
DROP INDEX inbox_parked_event;
ALTER TABLE inbox_parked DROP COLUMN event_type, DROP COLUMN aggregate, DROP COLUMN errors, DROP COLUMN releases;
DELETE FROM inbox_schema_versions WHERE version = 2;

DROP TABLE inbox_audit;
DROP INDEX inbox_parked_event;
ALTER TABLE inbox_parked DROP COLUMN event_type;
ALTER TABLE inbox_parked DROP COLUMN aggregate;
ALTER TABLE inbox_parked DROP COLUMN errors;
ALTER TABLE inbox_parked DROP COLUMN releases;
DELETE FROM inbox_schema_versions WHERE version = 2;

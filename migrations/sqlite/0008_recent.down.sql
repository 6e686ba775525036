DELETE FROM inbox_schema_versions WHERE version = 8;

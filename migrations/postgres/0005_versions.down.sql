-- What a later build finds again as if no event had ever been applied.
DROP TABLE inbox_versions;
DELETE FROM inbox_schema_versions WHERE version = 5;

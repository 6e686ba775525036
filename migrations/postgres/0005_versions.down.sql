-- What a later build finds again as if no event had ever been applied.
-- What waits joins the queue of its aggregate, and is run when its time is over.
UPDATE inbox_parked SET aggregate_key = joins WHERE joins IS NOT NULL;
DROP INDEX inbox_parked_joins;
ALTER TABLE inbox_parked DROP COLUMN joins, DROP COLUMN awaiting;
DROP TABLE inbox_versions;
DELETE FROM inbox_schema_versions WHERE version = 5;

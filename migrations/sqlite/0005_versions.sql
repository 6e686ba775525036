-- Versions of aggregates, where a route looks at them.

-- The version of the last event that was applied. Rows are never pruned: without its row an aggregate is one that was
-- never seen. `aggregate_key`: what is left of SHA-256 over type and id, whatever lanes are found by. `previous`: what the
-- transaction that wrote the row relied on, and the only version that it could change.
CREATE TABLE inbox_versions (
    consumer_ref  INTEGER NOT NULL,
    version       INTEGER NOT NULL,
    previous      INTEGER,
    changed_at    INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER)),
    aggregate_key BLOB NOT NULL CHECK (length(aggregate_key) = 16),
    PRIMARY KEY (consumer_ref, aggregate_key)
) STRICT, WITHOUT ROWID;

-- An event that waits for versions before its own (`awaiting`) is parked in a queue of its own, which holds nobody;
-- `joins` is the queue of its aggregate, which it is put into when its turn has come. NULL: it is there already.
ALTER TABLE inbox_parked ADD COLUMN joins BLOB;
ALTER TABLE inbox_parked ADD COLUMN awaiting INTEGER;
CREATE INDEX inbox_parked_joins ON inbox_parked (partition_ref, joins, awaiting) WHERE joins IS NOT NULL;

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

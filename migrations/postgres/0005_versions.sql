-- Versions of aggregates, where a route looks at them.

-- The version of the last event that was applied. Rows are never pruned: without its row an aggregate is one that was
-- never seen. `aggregate_key`: what is left of SHA-256 over type and id, whatever lanes are found by. `previous`: what the
-- transaction that wrote the row relied on, and the only version that it could change.
CREATE TABLE inbox_versions (
    consumer_ref  bigint NOT NULL,
    version       bigint NOT NULL,
    previous      bigint,
    changed_at    timestamptz NOT NULL DEFAULT now(),
    aggregate_key bytea NOT NULL CHECK (octet_length(aggregate_key) = 16),
    PRIMARY KEY (aggregate_key, consumer_ref)
) WITH (fillfactor = 50);

-- An event that waits for versions before its own (`awaiting`) is parked in a queue of its own, which holds nobody;
-- `joins` is the queue of its aggregate, which it is put into when its turn has come. NULL: it is there already.
ALTER TABLE inbox_parked
    ADD COLUMN joins    bytea,
    ADD COLUMN awaiting bigint;
CREATE INDEX inbox_parked_joins ON inbox_parked (partition_ref, joins, awaiting) WHERE joins IS NOT NULL;

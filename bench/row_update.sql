-- What one more row of an event costs PostgreSQL at least, in microseconds: 200 transactions of 500 aggregates each, of
-- 10,000 whose rows are there. `psql DATABASE -f bench/row_update.sql`; it leaves nothing behind.
\set QUIET on
SET synchronous_commit = off;
CREATE SCHEMA row_update;
SET search_path = row_update;
CREATE TABLE last_versions (
    consumer_ref bigint NOT NULL, version bigint NOT NULL, previous bigint,
    changed_at timestamptz NOT NULL DEFAULT now(),
    aggregate_key bytea NOT NULL CHECK (octet_length(aggregate_key) = 16),
    PRIMARY KEY (aggregate_key, consumer_ref)
) WITH (fillfactor = 50);
INSERT INTO last_versions (consumer_ref, version, aggregate_key)
SELECT 1, 0, substring(sha256(n::text::bytea) FROM 1 FOR 16) FROM generate_series(1, 10000) n;
CREATE TABLE transactions AS
SELECT t, array_agg(key ORDER BY key) AS keys, array_agg(0::bigint) AS versions
FROM generate_series(1, 200) t, LATERAL (SELECT DISTINCT
    substring(sha256((1 + mod(n * 7919 + t * 104729, 10000))::text::bytea) FROM 1 FOR 16) AS key
    FROM generate_series(1, 500) n) k
GROUP BY t;
VACUUM ANALYZE last_versions;
CREATE PROCEDURE measure(way text) LANGUAGE plpgsql AS $$
DECLARE one record; began timestamptz; took float := 0; rows bigint := 0; log pg_lsn := pg_current_wal_insert_lsn();
BEGIN
    FOR one IN SELECT * FROM transactions LOOP
        began := clock_timestamp();
        IF way = 'read' THEN
            PERFORM array_agg(aggregate_key), array_agg(version) FROM last_versions
            WHERE consumer_ref = 1 AND aggregate_key = ANY((SELECT one.keys)::bytea[]);
        ELSIF way = 'update' THEN
            UPDATE last_versions w SET version = v.now, previous = v.now, changed_at = now()
            FROM unnest((SELECT one.keys)::bytea[], one.versions, one.versions) v(key, before, now)
            WHERE w.consumer_ref = 1 AND w.aggregate_key = v.key AND w.version = v.before;
        ELSE
            INSERT INTO last_versions AS w (consumer_ref, aggregate_key, version, previous)
            SELECT 1, v.key, v.now, v.now FROM unnest(one.keys, one.versions, one.versions) v(key, before, now)
            ON CONFLICT (aggregate_key, consumer_ref) DO UPDATE
            SET version = excluded.version, previous = excluded.previous, changed_at = now()
            WHERE w.version = excluded.previous;
        END IF;
        took := took + extract(epoch FROM clock_timestamp() - began);
        rows := rows + cardinality(one.keys);
        COMMIT;
    END LOOP;
    RAISE NOTICE '%: % us a row, % bytes of log', rpad(way, 6), round((took * 1e6 / rows)::numeric, 2),
        ((pg_current_wal_insert_lsn() - log) / rows)::integer;
END $$;
CALL measure('read');
CALL measure('update');
CALL measure('upsert');
CALL measure('read');
CALL measure('update');
CALL measure('upsert');
CALL measure('read');
CALL measure('update');
CALL measure('upsert');
SET client_min_messages = warning;
DROP SCHEMA row_update CASCADE;

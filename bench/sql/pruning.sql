-- How pruning finds its rows: a sweep in heap order, a BRIN index or a b-tree on the age. Run by hand:
--     psql DATABASE -f bench/sql/pruning.sql
-- Three tables like inbox_events, five million rows each; then ten times: the oldest 4 % are removed,
-- VACUUM, and as many new ones inserted. What is told: milliseconds of inserting and of removing, and
-- pages of the heap that a removal read.
\set ON_ERROR_STOP on
\pset pager off
SET client_min_messages = warning;
DROP TABLE IF EXISTS of_sweep, of_brin, of_btree, told;
CREATE TABLE of_sweep (
    consumer_ref bigint NOT NULL, partition_ref bigint NOT NULL, "offset" bigint NOT NULL,
    processed_at timestamptz NOT NULL, event_id uuid NOT NULL, parked boolean NOT NULL DEFAULT false,
    fingerprint bytea NOT NULL, PRIMARY KEY (event_id, consumer_ref)
) WITH (autovacuum_enabled = false);
CREATE TABLE of_brin (LIKE of_sweep INCLUDING ALL) WITH (autovacuum_enabled = false);
CREATE TABLE of_btree (LIKE of_sweep INCLUDING ALL) WITH (autovacuum_enabled = false);
CREATE INDEX of_brin_age ON of_brin USING brin (processed_at) WITH (pages_per_range = 64, autosummarize = off);
CREATE INDEX of_btree_age ON of_btree (processed_at);
CREATE TABLE told (way text, cycle integer, inserting double precision, removing double precision, pages bigint);

-- Rows number n0 to n1, one a millisecond, a thousand to a statement; ids as UUID version 7 orders them.
CREATE OR REPLACE PROCEDURE fill(way text, n0 bigint, n1 bigint) LANGUAGE plpgsql AS $$
BEGIN
    FOR n IN 0 .. (n1 - n0) / 1000 - 1 LOOP
        EXECUTE format('INSERT INTO %I SELECT 1, 1, i, timestamptz ''2026-01-01'' + i * interval ''1 ms'',
            (lpad(to_hex(i), 12, ''0'') || ''7'' || substr(md5(i::text), 1, 19))::uuid, false,
            decode(md5(i::text), ''hex'') FROM generate_series($1, $2) i', way)
        USING n0 + n * 1000, n0 + n * 1000 + 999;
        COMMIT;
    END LOOP;
END $$;

-- Removes what is older than row n and tells how many pages of the heap were looked at.
CREATE OR REPLACE PROCEDURE remove(way text, n bigint, INOUT pages bigint) LANGUAGE plpgsql AS $$
DECLARE
    age timestamptz := timestamptz '2026-01-01' + n * interval '1 ms';
    plan json;
    size bigint := pg_relation_size(way::regclass) / 8192;
    page bigint := 0;
BEGIN
    IF way = 'of_sweep' THEN
        pages := size;
        WHILE page < size LOOP
            EXECUTE format('DELETE FROM %I WHERE ctid >= %L::tid AND ctid < %L::tid AND processed_at < $1',
                way, format('(%s,0)', page), format('(%s,0)', page + 64)) USING age;
            page := page + 64;
            COMMIT;
        END LOOP;
    ELSE
        PERFORM set_config('enable_seqscan', 'off', true);
        EXECUTE format('EXPLAIN (ANALYZE, FORMAT json) DELETE FROM %I WHERE processed_at < %L', way, age) INTO plan;
        pages := coalesce((plan #>> '{0,Plan,Plans,0,Lossy Heap Blocks}')::bigint, 0)
            + coalesce((plan #>> '{0,Plan,Plans,0,Exact Heap Blocks}')::bigint, 0);
        COMMIT;
    END IF;
END $$;

CREATE OR REPLACE PROCEDURE cycle(way text, number integer) LANGUAGE plpgsql AS $$
DECLARE
    began timestamptz := clock_timestamp();
    removed timestamptz;
    pages bigint;
BEGIN
    CALL remove(way, number * 200000, pages);
    removed := clock_timestamp();
    INSERT INTO told VALUES (way, number, NULL, extract(epoch FROM removed - began) * 1000, pages);
    COMMIT;
END $$;

CREATE OR REPLACE PROCEDURE refill(way text, number integer) LANGUAGE plpgsql AS $$
DECLARE
    began timestamptz := clock_timestamp();
BEGIN
    CALL fill(way, 4800000 + number * 200000, 5000000 + number * 200000);
    UPDATE told SET inserting = extract(epoch FROM clock_timestamp() - began) * 1000
    WHERE told.way = refill.way AND told.cycle = refill.number;
    COMMIT;
END $$;

CALL fill('of_sweep', 0, 5000000);
CALL fill('of_brin', 0, 5000000);
CALL fill('of_btree', 0, 5000000);
VACUUM ANALYZE of_sweep, of_brin, of_btree;

SELECT format('CALL cycle(%L, %s)', way, number), format('VACUUM %I', way), format('CALL refill(%L, %s)', way, number)
FROM generate_series(1, 10) number, unnest(ARRAY['of_sweep', 'of_brin', 'of_btree']) WITH ORDINALITY w(way, nth)
ORDER BY number, nth \gexec

SELECT way, count(*) AS cycles, round(percentile_cont(0.5) WITHIN GROUP (ORDER BY inserting)) AS inserting_ms,
    round(percentile_cont(0.5) WITHIN GROUP (ORDER BY removing)) AS removing_ms,
    round(max(removing)) AS removing_ms_most, round(percentile_cont(0.5) WITHIN GROUP (ORDER BY pages)) AS pages,
    pg_size_pretty(pg_relation_size(way::regclass)) AS table_size, pg_size_pretty(pg_indexes_size(way::regclass)) AS indexes
FROM told GROUP BY way ORDER BY way;
DROP TABLE of_sweep, of_brin, of_btree, told;
DROP PROCEDURE fill, remove, cycle, refill;

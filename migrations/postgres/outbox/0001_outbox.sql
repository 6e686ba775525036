-- The outbox: events written in the transaction of what they tell, and the relays that ship them.
-- Rows are marked one by one. A relay never remembers "the last number": numbers become visible out of order.

CREATE TABLE outbox_schema_versions (
    version    bigint PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- `headers`: JSON, [["name", "text" | {"base64": "…"} | null], …], without those that the columns make.
-- `payload`: NULL is a tombstone. `topic`: NULL is what the relay's template says.
-- `bytes_max`: what whoever wrote the row held for the most that its consumers take.
-- `failed_at`: set aside, with everything behind it of its aggregate; `error` says why. `discarded_at`: a person decided
-- that it is never sent; it is not waited for any more.
CREATE TABLE outbox_events (
    seq               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id          uuid NOT NULL,
    occurred_at_ms    bigint,
    aggregate_version bigint,
    created_at        timestamptz NOT NULL DEFAULT now(),
    sent_at           timestamptz,
    failed_at         timestamptz,
    discarded_at      timestamptz,
    schema_version    integer,
    bytes_max         integer NOT NULL DEFAULT 1048576,
    event_type        text NOT NULL CHECK (octet_length(event_type) BETWEEN 1 AND 255),
    aggregate_type    text NOT NULL CHECK (octet_length(aggregate_type) BETWEEN 1 AND 255),
    aggregate_id      text NOT NULL CHECK (octet_length(aggregate_id) BETWEEN 1 AND 1024),
    topic             text CHECK (octet_length(topic) BETWEEN 1 AND 249),
    headers           text NOT NULL DEFAULT '[]',
    payload           bytea,
    error             text,
    discarded_by      text,
    CONSTRAINT outbox_events_size CHECK (
        octet_length(aggregate_id)::bigint + coalesce(octet_length(payload), 0) <= bytes_max
        AND octet_length(headers) <= bytes_max::bigint * 8)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000);
-- What a relay looks at: no larger than what waits.
CREATE INDEX outbox_events_unsent ON outbox_events (seq) WHERE sent_at IS NULL AND failed_at IS NULL;
CREATE INDEX outbox_events_failed ON outbox_events (aggregate_type, aggregate_id, seq)
    WHERE failed_at IS NOT NULL AND discarded_at IS NULL;

-- One row: which relay's turn it is, by this database's clock. `outbox_id` names the outbox at the broker, `epoch` counts
-- turns. No further index, room in the page: every sign of life shall be a HOT update.
CREATE TABLE outbox_relays (
    relay_ref   smallint PRIMARY KEY DEFAULT 1 CHECK (relay_ref = 1),
    outbox_id   uuid NOT NULL DEFAULT gen_random_uuid(),
    epoch       bigint NOT NULL DEFAULT 0,
    owner       text,
    lease_until timestamptz,
    taken_at    timestamptz,
    standstill  text
) WITH (fillfactor = 25, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
INSERT INTO outbox_relays DEFAULT VALUES;

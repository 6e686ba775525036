-- Releasing parked events: what a person has to know of one, how often its release was tried, and who did what.

-- `errors`: the last ten as JSON, `[{"at", "attempt", "error"}, …]`. `releases`: rounds of release that failed.
ALTER TABLE inbox_parked
    ADD COLUMN event_type text NOT NULL DEFAULT '',
    ADD COLUMN aggregate  text NOT NULL DEFAULT '',
    ADD COLUMN errors     text NOT NULL DEFAULT '[]',
    ADD COLUMN releases   integer NOT NULL DEFAULT 0;
CREATE INDEX inbox_parked_event ON inbox_parked (consumer_ref, event_id);

-- One row per parked event and act, and per partition that was skipped or retired. Never pruned.
CREATE TABLE inbox_audit (
    audit_seq    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at           timestamptz NOT NULL DEFAULT now(),
    who          text NOT NULL,
    what         text NOT NULL,
    why          text NOT NULL DEFAULT '',
    consumer_ref bigint NOT NULL,
    topic        text,
    partition    integer,
    "offset"     bigint,
    event_id     uuid,
    aggregate    text,
    event_type   text
);

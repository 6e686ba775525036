-- Who a turn was given to, beside its number: after a failover, a restore or in a clone a number is given twice.
-- `lease_ms`: how long the lease was taken for, so that one that ends later than it can is known for what it is.
-- `token_epoch`: the turn that both belong to; a build without them leaves them as they are.
ALTER TABLE outbox_relays ADD COLUMN token uuid, ADD COLUMN token_epoch bigint,
    ADD COLUMN lease_ms bigint;

-- `held`: set aside only since one before it of its aggregate is; out of the index of what a relay looks at, like that one.
-- `waits_for`: the topic that is missing; the row goes by itself when it is there.
ALTER TABLE outbox_events ADD COLUMN held boolean NOT NULL DEFAULT false, ADD COLUMN waits_for text;
-- What people look at: what was set aside for itself, however much waits behind it.
CREATE INDEX outbox_events_heads ON outbox_events (seq)
    WHERE failed_at IS NOT NULL AND discarded_at IS NULL AND NOT held;
CREATE INDEX outbox_events_waits ON outbox_events (waits_for, seq) WHERE waits_for IS NOT NULL;

-- Aggregates of which a row goes again, or never will: the relay lets what is held behind it go, in steps.
-- `asked` counts how often that was asked for: what is asked for meanwhile is not forgotten.
CREATE TABLE outbox_releases (
    release_ref    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    asked          bigint NOT NULL DEFAULT 1,
    aggregate_type text NOT NULL,
    aggregate_id   text NOT NULL,
    CONSTRAINT outbox_releases_aggregate UNIQUE (aggregate_type, aggregate_id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

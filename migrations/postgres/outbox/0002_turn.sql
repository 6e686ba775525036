-- Who a turn was given to, beside its number: after a failover, a restore or in a clone a number is given twice.
-- `lease_ms`: how long the lease was taken for, so that one that ends later than it can is known for what it is.
-- `token_epoch`: the turn that both belong to; a build without them leaves them as they are.
ALTER TABLE outbox_relays ADD COLUMN token uuid, ADD COLUMN token_epoch bigint,
    ADD COLUMN lease_ms bigint;

-- What the roles of compose.yaml may do with the tables, given by their owner after `migrate`.
--
-- The business tables: what the shop's statements and the consumer's handler (consumer.toml) touch.
GRANT INSERT ON orders TO shop;
GRANT SELECT ON accounts TO shop;
GRANT SELECT, UPDATE ON accounts TO billing;
GRANT SELECT, INSERT, UPDATE ON payments TO billing;
GRANT SELECT ON payments TO shop;

-- `inbox-consumer migrate --print-grants billing --for consumer`: the handler appends nothing.
GRANT SELECT ON inbox_schema_versions TO billing;
GRANT SELECT, INSERT ON inbox_consumers TO billing;
GRANT SELECT, INSERT, UPDATE, DELETE ON inbox_partitions TO billing;
GRANT SELECT, INSERT, UPDATE, DELETE ON inbox_lanes TO billing;
GRANT SELECT, INSERT, UPDATE, DELETE ON inbox_events TO billing;
GRANT SELECT, INSERT, UPDATE, DELETE ON inbox_parked TO billing;
GRANT SELECT, INSERT, UPDATE, DELETE ON inbox_suspects TO billing;
GRANT SELECT, INSERT, UPDATE ON inbox_versions TO billing;
GRANT INSERT ON inbox_audit TO billing;
GRANT SELECT ON inbox_audit TO billing;
GRANT SELECT ON SEQUENCE inbox_audit_audit_seq_seq TO billing;
GRANT SELECT ON SEQUENCE inbox_consumers_consumer_ref_seq TO billing;
GRANT SELECT ON SEQUENCE inbox_parked_parked_seq_seq TO billing;
GRANT SELECT ON SEQUENCE inbox_partitions_partition_ref_seq TO billing;

-- `outbox-relay migrate --print-grants relay --for relay`
GRANT SELECT ON outbox_schema_versions TO relay;
GRANT SELECT, UPDATE, DELETE ON outbox_events TO relay;
GRANT SELECT, INSERT, UPDATE, DELETE ON outbox_parked TO relay;
GRANT SELECT, UPDATE ON outbox_relays TO relay;
GRANT INSERT ON outbox_audit TO relay;
GRANT SELECT ON SEQUENCE outbox_events_seq_seq TO relay;

-- `outbox-relay migrate --print-grants shop --for appender`
GRANT INSERT ON outbox_events TO shop;
GRANT SELECT (dedup_key) ON outbox_events TO shop;

DROP TABLE outbox_relays, outbox_events, outbox_schema_versions;

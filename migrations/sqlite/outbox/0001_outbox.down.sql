DROP TABLE outbox_relays;
DROP TABLE outbox_events;
DROP TABLE outbox_schema_versions;

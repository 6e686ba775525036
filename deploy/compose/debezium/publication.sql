-- What Debezium reads, by the owner of the table. Run at every start of the profile `debezium`.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_publication WHERE pubname = 'debezium') THEN
        CREATE PUBLICATION debezium FOR TABLE outbox_events WITH (publish = 'insert');
    END IF;
END $$;
GRANT SELECT ON outbox_events TO debezium;

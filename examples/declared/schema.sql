CREATE TABLE accounts (id uuid PRIMARY KEY, balance numeric NOT NULL DEFAULT 0);
CREATE TABLE entries (
    event_id uuid NOT NULL,
    account uuid NOT NULL,
    amount numeric NOT NULL,
    balance numeric NOT NULL,
    note text
);
CREATE TABLE visits (page text PRIMARY KEY, visits bigint NOT NULL, latest timestamptz NOT NULL);
INSERT INTO accounts (id) VALUES ('00000000-0000-7000-8000-000000000001');

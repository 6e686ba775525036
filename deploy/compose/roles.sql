-- The roles of compose.yaml: each may do what it is there for, and none is a superuser. Run once, by the image of
-- PostgreSQL, when it makes the database. Passwords for the one machine this runs on; choose others anywhere else.
CREATE ROLE shop_owner LOGIN PASSWORD 'shop_owner'; -- owns database and tables: migrations, grants
CREATE ROLE shop LOGIN PASSWORD 'shop';             -- the shop's service: orders, and the news of them
CREATE ROLE billing LOGIN PASSWORD 'billing';       -- the consumer
CREATE ROLE relay LOGIN PASSWORD 'relay';           -- the relay
-- Debezium, in its profile: it reads the log of the database, which needs this attribute.
CREATE ROLE debezium LOGIN PASSWORD 'debezium' REPLICATION;

ALTER DATABASE shop OWNER TO shop_owner;
REVOKE ALL ON DATABASE shop FROM PUBLIC;
GRANT CONNECT ON DATABASE shop TO shop, billing, relay, debezium;
-- Declared handlers with `mode = "each"` are functions of the session.
GRANT TEMPORARY ON DATABASE shop TO billing;
-- The owner of the database alone creates anything in it (PostgreSQL 15 and newer say so by themselves).
REVOKE CREATE ON SCHEMA public FROM PUBLIC;

-- The image's superuser has no password from here on: it comes by the container's own socket alone.
ALTER ROLE postgres PASSWORD NULL;

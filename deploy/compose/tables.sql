-- The business tables of compose.yaml. The inbox and the outbox come by `inbox-consumer migrate`.
SET ROLE shop_owner;
CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL);
INSERT INTO accounts VALUES (1, 0), (2, 0);
-- Kept by the consumer of the profile `debezium`.
CREATE TABLE payments (account bigint PRIMARY KEY, total bigint NOT NULL);
CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, account bigint NOT NULL, amount bigint NOT NULL);

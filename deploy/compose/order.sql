-- A shop in any language: the order and the news of it in one transaction.
BEGIN;
INSERT INTO orders (account, amount) VALUES (1, 250);
INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, payload)
VALUES (gen_random_uuid(), 'OrderPaid', 'Account', '1', convert_to('{"account": 1, "amount": 250}', 'UTF8'));
COMMIT;

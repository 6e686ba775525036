-- The read model, and a log of what handlers did: without any key that would refuse a second effect.
CREATE TABLE shown_items (id bigint PRIMARY KEY, n bigint NOT NULL, name text, doc text, extra text);
CREATE TABLE shown_parts (item bigint, no bigint, n bigint NOT NULL, name text, doc text, PRIMARY KEY (item, no));
CREATE TABLE effects (seq bigserial, event_id uuid, of text, key text, op text, n bigint, partial boolean DEFAULT false);

-- Two tables, and what happens to their rows. The log has of `items` the key alone of what was before, of `parts` all.
CREATE SEQUENCE numbers;
CREATE SEQUENCE revisions;
CREATE TABLE items (id bigint PRIMARY KEY, n bigint NOT NULL, name text, doc text, obsolete int DEFAULT 0);
ALTER TABLE items ALTER doc SET STORAGE EXTERNAL;
CREATE TABLE parts (item bigint, no bigint, n bigint NOT NULL, name text, doc text, PRIMARY KEY (item, no));
ALTER TABLE parts ALTER doc SET STORAGE EXTERNAL;
ALTER TABLE parts REPLICA IDENTITY FULL;

CREATE TABLE history (seq bigserial, of text, key text, op text, n bigint);

CREATE FUNCTION key_of(item items) RETURNS text LANGUAGE sql AS $$ SELECT item.id::text $$;
CREATE FUNCTION key_of(part parts) RETURNS text LANGUAGE sql AS $$ SELECT format('{"item":%s,"no":%s}', part.item, part.no) $$;

CREATE FUNCTION remember() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE before bigint;
BEGIN
    IF TG_OP <> 'INSERT' AND TG_TABLE_NAME = 'parts' THEN before := OLD.n; END IF;
    IF TG_OP = 'INSERT' THEN
        INSERT INTO history (of, key, op, n) VALUES (TG_TABLE_NAME, key_of(NEW), 'c', NEW.n);
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO history (of, key, op, n) VALUES (TG_TABLE_NAME, key_of(OLD), 'd', before);
    ELSIF key_of(OLD) = key_of(NEW) THEN
        INSERT INTO history (of, key, op, n) VALUES (TG_TABLE_NAME, key_of(NEW), 'u', NEW.n);
    ELSE
        INSERT INTO history (of, key, op, n) VALUES (TG_TABLE_NAME, key_of(OLD), 'd', before), (TG_TABLE_NAME, key_of(NEW), 'c', NEW.n);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER remember AFTER INSERT OR UPDATE OR DELETE ON items FOR EACH ROW EXECUTE FUNCTION remember();
CREATE TRIGGER remember AFTER INSERT OR UPDATE OR DELETE ON parts FOR EACH ROW EXECUTE FUNCTION remember();

-- A tenth is too large for its row.
CREATE FUNCTION some_doc() RETURNS text LANGUAGE sql VOLATILE AS
$$ SELECT CASE WHEN random() < 0.1 THEN repeat(md5(random()::text), 80) ELSE md5(random()::text) END $$;

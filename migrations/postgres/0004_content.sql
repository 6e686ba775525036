-- What two events with one id have in common, in hashes that nobody finds two contents for.

-- `sha256`: the row's fingerprint is of SHA-256; false: of XXH3, as builds before this one make it. In inbox_events it
-- takes the room of what aligns the row.
ALTER TABLE inbox_events ADD COLUMN sha256 boolean NOT NULL DEFAULT false;
ALTER TABLE inbox_parked ADD COLUMN sha256 boolean NOT NULL DEFAULT false;

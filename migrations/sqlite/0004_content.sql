-- What two events with one id have in common, in hashes that nobody finds two contents for.

-- `sha256`: the row's fingerprint is of SHA-256; 0: of XXH3, as builds before this one make it.
ALTER TABLE inbox_events ADD COLUMN sha256 INTEGER NOT NULL DEFAULT 0 CHECK (sha256 IN (0, 1));
ALTER TABLE inbox_parked ADD COLUMN sha256 INTEGER NOT NULL DEFAULT 0 CHECK (sha256 IN (0, 1));

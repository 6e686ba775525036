-- What two events with one id have in common, in hashes that nobody finds two contents for.

-- `sha256`: the row's fingerprint is of SHA-256; 0: of XXH3, as builds before this one make it.
ALTER TABLE inbox_events ADD COLUMN sha256 INTEGER NOT NULL DEFAULT 0 CHECK (sha256 IN (0, 1));
ALTER TABLE inbox_parked ADD COLUMN sha256 INTEGER NOT NULL DEFAULT 0 CHECK (sha256 IN (0, 1));

-- `id_scope_epoch`: set, with the epoch, while event ids hold within their topic. A build before this one does not set
-- it with the epoch, so it does not take a partition over whose ids it would not find.
ALTER TABLE inbox_partitions ADD COLUMN id_scope_epoch INTEGER
    CONSTRAINT inbox_ids_within_topics_need_a_newer_build CHECK (id_scope_epoch = epoch);

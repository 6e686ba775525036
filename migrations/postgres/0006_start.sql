-- What tells a partition that was added later from one of a consumer's first start.

-- `partitions_at_start`: how many partitions the topic had when the consumer first took one over; NULL: a build before
-- this one did, or the brokers did not say.
ALTER TABLE inbox_partitions ADD COLUMN partitions_at_start integer;

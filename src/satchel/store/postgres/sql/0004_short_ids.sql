-- Short ids are made from the last digits of an id, which are random.
-- A column, not an index on an expression: with row-level security, PostgreSQL uses indexes only for leakproof functions.
ALTER TABLE memory ADD COLUMN tail text COLLATE "C" GENERATED ALWAYS AS (right(id, 10)) STORED;
-- Partial, so that it is used only for conditions on tails, not for all memories of an org.
CREATE INDEX memory_tail ON memory (org, tail) WHERE tail IS NOT NULL;
-- For `as_of`: relations that were removed since a moment.
CREATE INDEX history_unrelated ON history (org, at) WHERE action = 'unrelate';

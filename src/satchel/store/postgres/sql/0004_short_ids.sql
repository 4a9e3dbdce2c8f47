-- Short ids are made from the end of an id, whose digits are random: the index finds a memory by them.
-- A column, not an index on an expression: under the policies PostgreSQL uses an index only for leakproof operators.
ALTER TABLE memory ADD COLUMN tail text COLLATE "C" GENERATED ALWAYS AS (right(id, 10)) STORED;
-- Partial, so that it is used only where a tail is asked for, and never as one more way to all memories of an org.
CREATE INDEX memory_tail ON memory (org, tail) WHERE tail IS NOT NULL;
-- What `as_of` asks of removed relations.
CREATE INDEX history_unrelated ON history (org, at) WHERE action = 'unrelate';

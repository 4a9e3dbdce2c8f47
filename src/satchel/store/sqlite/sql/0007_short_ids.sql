-- Short ids are made from the last digits of an id, which are random.
ALTER TABLE memory ADD COLUMN tail TEXT GENERATED ALWAYS AS (substr(id, -10)) VIRTUAL;
-- Partial, so that it is used only for conditions on tails, not for all memories of an org.
CREATE INDEX memory_tail ON memory (org, tail) WHERE tail IS NOT NULL;
-- For `as_of`: relations that were removed since a moment.
CREATE INDEX history_unrelated ON history (org, at) WHERE action = 'unrelate';

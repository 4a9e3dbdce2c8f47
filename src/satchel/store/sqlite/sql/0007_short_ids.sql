-- Short ids are made from the end of an id, whose digits are random: the index finds a memory by them.
ALTER TABLE memory ADD COLUMN tail TEXT GENERATED ALWAYS AS (substr(id, -10)) VIRTUAL;
-- Partial, so that it is used only where a tail is asked for, and never as one more way to all memories of an org.
CREATE INDEX memory_tail ON memory (org, tail) WHERE tail IS NOT NULL;
-- What `as_of` asks of removed relations.
CREATE INDEX history_unrelated ON history (org, at) WHERE action = 'unrelate';

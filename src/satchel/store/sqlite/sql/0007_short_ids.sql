-- Short ids are made from the end of an id, whose digits are random: the index finds a memory by them.
ALTER TABLE memory ADD COLUMN tail TEXT GENERATED ALWAYS AS (substr(id, -10)) VIRTUAL;
CREATE INDEX memory_tail ON memory (org, tail);
-- What `as_of` asks of removed relations.
CREATE INDEX history_unrelated ON history (org, at) WHERE action = 'unrelate';

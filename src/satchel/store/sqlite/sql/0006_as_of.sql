-- What `as_of` asks first: which memories and relations have changed since a moment.
-- Not led by org: SQLite would take it for the way to the relations of a memory.
CREATE INDEX memory_revised ON memory (org, updated_at) WHERE revision > 1;
CREATE INDEX relation_time ON relation (created_at, org);

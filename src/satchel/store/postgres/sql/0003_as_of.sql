-- What `as_of` asks first: which memories and relations have changed since a moment.
CREATE INDEX memory_revised ON memory (org, updated_at) WHERE revision > 1;
CREATE INDEX relation_time ON relation (org, created_at);

-- A JSON object of the caller's own: each key with its value on a line, by which a filter finds it.
ALTER TABLE memory ADD COLUMN metadata TEXT NOT NULL DEFAULT '{}';

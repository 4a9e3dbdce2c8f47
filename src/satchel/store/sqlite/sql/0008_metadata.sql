-- A JSON object with each key and its value on a line. A filter searches for that line.
ALTER TABLE memory ADD COLUMN metadata TEXT NOT NULL DEFAULT '{}';

-- A JSON object of the caller's own: each key with its value on a line, by which a filter finds it.
-- As text: jsonb takes no \u0000, and tells 1 from 1.0 in its own way.
ALTER TABLE memory ADD COLUMN metadata text COLLATE "C" NOT NULL DEFAULT '{}';

-- A JSON object with each key and its value on a line. A filter searches for that line.
-- Text, because jsonb does not accept \u0000 and compares numbers in its own way.
ALTER TABLE memory ADD COLUMN metadata text COLLATE "C" NOT NULL DEFAULT '{}';

-- What recall keeps beside the texts; all of it can be made again from the memories.
-- A passage's number is its memory's, shifted by 12 bits, plus its place in the text.
CREATE TABLE passage (
    seq   INTEGER PRIMARY KEY,
    start INTEGER NOT NULL,
    stop  INTEGER NOT NULL,
    flags INTEGER NOT NULL,
    codes BLOB NOT NULL
) STRICT;

CREATE TRIGGER memory_unparted AFTER DELETE ON memory BEGIN
    DELETE FROM passage WHERE seq BETWEEN old.seq << 12 AND (old.seq << 12) + 4095;
END;

-- Whose vectors are kept in vector_N and, as one bit for each number, in code_N.
CREATE TABLE embedding (
    generation INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    dimensions INTEGER NOT NULL,
    state      TEXT NOT NULL CHECK (state IN ('current', 'building'))
) STRICT;
CREATE UNIQUE INDEX embedding_state ON embedding (state);

-- Memories with a passage that has no vector yet.
CREATE TABLE backlog (
    memory INTEGER PRIMARY KEY REFERENCES memory (seq) ON DELETE CASCADE
) STRICT;
INSERT INTO backlog SELECT seq FROM memory;

CREATE INDEX memory_source_time ON memory (org, source, at, id) WHERE source IS NOT NULL AND session = '';

CREATE VIRTUAL TABLE memory_word USING fts5vocab (memory_fts, row);

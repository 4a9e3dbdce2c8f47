-- Times are microseconds since 1970 in UTC. An unset scope field is '' so that unique indexes see it.
-- Filter columns come first and long text last: a filter then never reads overflow pages.
CREATE TABLE memory (
    seq           INTEGER PRIMARY KEY,
    id            TEXT NOT NULL UNIQUE,
    org           TEXT NOT NULL,
    project       TEXT NOT NULL,
    user          TEXT NOT NULL,
    agent         TEXT NOT NULL,
    session       TEXT NOT NULL,
    status        TEXT NOT NULL,
    valid_from    INTEGER,
    invalid_at    INTEGER,
    kind          TEXT NOT NULL,
    tier          TEXT NOT NULL,
    pinned        INTEGER NOT NULL,
    importance    REAL NOT NULL,
    confidence    REAL NOT NULL,
    at            INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    revision      INTEGER NOT NULL,
    tokens        INTEGER NOT NULL,
    superseded_by TEXT,
    speaker       TEXT,
    source        TEXT,
    ref           TEXT,
    topic_key     TEXT,
    tags          TEXT NOT NULL,
    masked        TEXT NOT NULL,
    title         TEXT,
    text          TEXT NOT NULL,
    -- What is indexed instead, where the script is written without spaces; NULL otherwise.
    title_index   TEXT,
    tags_index    TEXT,
    text_index    TEXT
) STRICT;

CREATE UNIQUE INDEX memory_ref ON memory (org, project, user, agent, session, ref)
    WHERE ref IS NOT NULL;
-- Topics outlive sessions.
CREATE UNIQUE INDEX memory_topic ON memory (org, project, user, agent, topic_key)
    WHERE topic_key IS NOT NULL;
CREATE INDEX memory_time ON memory (org, at, id);
CREATE INDEX memory_project_time ON memory (org, project, at, id);
CREATE INDEX memory_session_time ON memory (org, session, at, id) WHERE session <> '';

CREATE VIEW memory_index (seq, title, text, tags) AS
SELECT seq, coalesce(title_index, title), coalesce(text_index, text), coalesce(tags_index, tags)
FROM memory;

CREATE VIRTUAL TABLE memory_fts USING fts5 (
    title, text, tags,
    content = 'memory_index', content_rowid = 'seq',
    tokenize = 'porter unicode61 remove_diacritics 2'
);
-- Words of a purged memory do not linger in the index.
INSERT INTO memory_fts (memory_fts, rank) VALUES ('secure-delete', 1);

CREATE TABLE memory_tag (
    tag TEXT NOT NULL COLLATE NOCASE,
    seq INTEGER NOT NULL REFERENCES memory (seq) ON DELETE CASCADE,
    PRIMARY KEY (tag, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX memory_tag_seq ON memory_tag (seq);

CREATE TRIGGER memory_indexed AFTER INSERT ON memory BEGIN
    INSERT INTO memory_fts (rowid, title, text, tags)
    VALUES (
        new.seq, coalesce(new.title_index, new.title), coalesce(new.text_index, new.text),
        coalesce(new.tags_index, new.tags)
    );
END;

CREATE TRIGGER memory_unindexed AFTER DELETE ON memory BEGIN
    INSERT INTO memory_fts (memory_fts, rowid, title, text, tags)
    VALUES (
        'delete', old.seq, coalesce(old.title_index, old.title),
        coalesce(old.text_index, old.text), coalesce(old.tags_index, old.tags)
    );
END;

CREATE TRIGGER memory_reindexed AFTER UPDATE ON memory
WHEN old.text IS NOT new.text OR old.title IS NOT new.title OR old.tags IS NOT new.tags
    OR old.text_index IS NOT new.text_index OR old.title_index IS NOT new.title_index
    OR old.tags_index IS NOT new.tags_index
BEGIN
    INSERT INTO memory_fts (memory_fts, rowid, title, text, tags)
    VALUES (
        'delete', old.seq, coalesce(old.title_index, old.title),
        coalesce(old.text_index, old.text), coalesce(old.tags_index, old.tags)
    );
    INSERT INTO memory_fts (rowid, title, text, tags)
    VALUES (
        new.seq, coalesce(new.title_index, new.title), coalesce(new.text_index, new.text),
        coalesce(new.tags_index, new.tags)
    );
END;

CREATE TRIGGER memory_tagged AFTER INSERT ON memory WHEN new.tags <> '[]' BEGIN
    INSERT OR IGNORE INTO memory_tag (tag, seq) SELECT value, new.seq FROM json_each(new.tags);
END;

CREATE TRIGGER memory_retagged AFTER UPDATE OF tags ON memory WHEN old.tags <> new.tags BEGIN
    DELETE FROM memory_tag WHERE seq = new.seq;
    INSERT OR IGNORE INTO memory_tag (tag, seq) SELECT value, new.seq FROM json_each(new.tags);
END;

CREATE TABLE relation (
    org        TEXT NOT NULL,
    source     TEXT NOT NULL REFERENCES memory (id) ON DELETE CASCADE,
    target     TEXT NOT NULL REFERENCES memory (id) ON DELETE CASCADE,
    kind       TEXT NOT NULL,
    strength   REAL NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (source, target, kind)
) STRICT, WITHOUT ROWID;
CREATE INDEX relation_target ON relation (target);

-- Not a foreign key: the entry that says a memory was purged outlives it.
CREATE TABLE history (
    seq     INTEGER PRIMARY KEY,
    org     TEXT NOT NULL,
    memory  TEXT NOT NULL,
    at      INTEGER NOT NULL,
    action  TEXT NOT NULL,
    changes TEXT NOT NULL
) STRICT;
CREATE INDEX history_memory ON history (memory, seq);

-- Apart from the memory, so that counting a use never rewrites a long text.
CREATE TABLE usage (
    seq     INTEGER PRIMARY KEY REFERENCES memory (seq) ON DELETE CASCADE,
    count   INTEGER NOT NULL,
    last_at INTEGER NOT NULL
) STRICT;

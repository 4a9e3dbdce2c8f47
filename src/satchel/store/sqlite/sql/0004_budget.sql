-- What entered the context of agents' sessions, and what their tools said, kept whole.
CREATE TABLE session (
    org             TEXT NOT NULL,
    id              TEXT NOT NULL,
    project         TEXT NOT NULL,
    user            TEXT NOT NULL,
    agent           TEXT NOT NULL,
    name            TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    turn            INTEGER NOT NULL,
    -- Counts every entry and every use of one, and so tells which came last.
    clock           INTEGER NOT NULL,
    system          INTEGER NOT NULL,
    history         INTEGER NOT NULL,
    tool_results    INTEGER NOT NULL,
    user_message    INTEGER NOT NULL,
    turn_results    INTEGER NOT NULL,
    results         INTEGER NOT NULL,
    delivered       INTEGER NOT NULL,
    evicted         INTEGER NOT NULL,
    warned          INTEGER NOT NULL,
    holds           TEXT NOT NULL,
    secret          BLOB NOT NULL,
    budget          TEXT NOT NULL,
    calibration     TEXT NOT NULL,
    PRIMARY KEY (org, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX session_name ON session (org, project, user, agent, name);
CREATE INDEX session_changed ON session (org, updated_at);

CREATE TABLE entry (
    org           TEXT NOT NULL,
    session       TEXT NOT NULL,
    seq           INTEGER NOT NULL,
    handle        TEXT NOT NULL,
    turn          INTEGER NOT NULL,
    at            INTEGER NOT NULL,
    used          INTEGER NOT NULL,
    category      TEXT NOT NULL,
    role          TEXT NOT NULL,
    level         TEXT NOT NULL,
    pinned        INTEGER NOT NULL,
    error         INTEGER NOT NULL,
    media         TEXT NOT NULL,
    size          INTEGER NOT NULL,
    start         INTEGER NOT NULL,
    stop          INTEGER NOT NULL,
    tokens        INTEGER NOT NULL,
    total_tokens  INTEGER NOT NULL,
    digest_tokens INTEGER NOT NULL,
    stub_tokens   INTEGER NOT NULL,
    shape         TEXT NOT NULL,
    name          TEXT NOT NULL,
    tool          TEXT NOT NULL,
    call_id       TEXT NOT NULL,
    pair          INTEGER NOT NULL,
    origin        TEXT NOT NULL,
    content       BLOB NOT NULL,
    digest        TEXT NOT NULL,
    stub          TEXT NOT NULL,
    note          TEXT NOT NULL,
    PRIMARY KEY (org, session, seq),
    FOREIGN KEY (org, session) REFERENCES session (org, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX entry_handle ON entry (org, handle);
CREATE INDEX entry_content ON entry (org, content);
-- A call is looked for by whoever answers it.
CREATE INDEX entry_call ON entry (org, session, call_id, seq) WHERE call_id <> '';
-- What is in the context is found without a look at what has left it.
CREATE INDEX entry_held ON entry (org, session, category, seq) WHERE level <> 'gone';

-- One copy of each content, however often it was said.
CREATE TABLE content (
    org     TEXT NOT NULL,
    hash    BLOB NOT NULL,
    used_at INTEGER NOT NULL,
    bytes   INTEGER NOT NULL,
    codec   TEXT NOT NULL,
    data    BLOB NOT NULL,
    PRIMARY KEY (org, hash)
) STRICT;
CREATE INDEX content_age ON content (org, used_at, bytes);

-- What a turn left in the context when it ended, and what was taken out of it.
CREATE TABLE turn (
    org          TEXT NOT NULL,
    session      TEXT NOT NULL,
    number       INTEGER NOT NULL,
    at           INTEGER NOT NULL,
    system       INTEGER NOT NULL,
    history      INTEGER NOT NULL,
    tool_results INTEGER NOT NULL,
    user_message INTEGER NOT NULL,
    evicted      INTEGER NOT NULL,
    PRIMARY KEY (org, session, number),
    FOREIGN KEY (org, session) REFERENCES session (org, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

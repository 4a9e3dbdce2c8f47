-- Times are microseconds since 1970 in UTC. An unset scope field is ''. Text is compared by its bytes, as in SQLite.
-- org leads every key and index: Citus distributes each table by it, and no query leaves its tenant.

-- One row for each tenant: its writers queue up for it, and it counts what ranking asks for.
CREATE TABLE tenant (
    org      text COLLATE "C" NOT NULL PRIMARY KEY,
    memories bigint NOT NULL DEFAULT 0,
    words    bigint NOT NULL DEFAULT 0
);

CREATE TABLE memory (
    org           text COLLATE "C" NOT NULL,
    seq           bigint NOT NULL,
    id            text COLLATE "C" NOT NULL,
    project       text COLLATE "C" NOT NULL,
    "user"        text COLLATE "C" NOT NULL,
    agent         text COLLATE "C" NOT NULL,
    session       text COLLATE "C" NOT NULL,
    status        text COLLATE "C" NOT NULL,
    valid_from    bigint,
    invalid_at    bigint,
    kind          text COLLATE "C" NOT NULL,
    tier          text COLLATE "C" NOT NULL,
    pinned        smallint NOT NULL,
    importance    double precision NOT NULL,
    confidence    double precision NOT NULL,
    at            bigint NOT NULL,
    created_at    bigint NOT NULL,
    updated_at    bigint NOT NULL,
    revision      bigint NOT NULL,
    tokens        bigint NOT NULL,
    superseded_by text COLLATE "C",
    speaker       text COLLATE "C",
    source        text COLLATE "C",
    ref           text COLLATE "C",
    topic_key     text COLLATE "C",
    tags          text COLLATE "C" NOT NULL,
    masked        text COLLATE "C" NOT NULL,
    title         text COLLATE "C",
    text          text COLLATE "C" NOT NULL,
    -- Each tag with its ASCII letters in lower case.
    tag_keys      text[] COLLATE "C" NOT NULL,
    -- The terms of the index, each with its tenant's sign before it, and as many positions as it has weight.
    words         tsvector NOT NULL,
    length        bigint NOT NULL,
    -- Names together are longer than an index takes.
    ref_key       text COLLATE "C" GENERATED ALWAYS AS (
        CASE WHEN ref IS NOT NULL
            THEN md5(md5(project) || md5("user") || md5(agent) || md5(session) || md5(ref)) END
    ) STORED,
    topic_id      text COLLATE "C" GENERATED ALWAYS AS (
        CASE WHEN topic_key IS NOT NULL
            THEN md5(md5(project) || md5("user") || md5(agent) || md5(topic_key)) END
    ) STORED,
    PRIMARY KEY (org, seq),
    UNIQUE (org, id)
);
CREATE UNIQUE INDEX memory_ref ON memory (org, ref_key) WHERE ref_key IS NOT NULL;
-- Topics outlive sessions.
CREATE UNIQUE INDEX memory_topic ON memory (org, topic_id) WHERE topic_id IS NOT NULL;
CREATE INDEX memory_time ON memory (org, at, id);
CREATE INDEX memory_project_time ON memory (org, project, at, id);
CREATE INDEX memory_session_time ON memory (org, session, at, id) WHERE session <> '';
CREATE INDEX memory_source_time ON memory (org, source, at, id) WHERE source IS NOT NULL AND session = '';
-- What a context brings without being asked: what is pinned, and what matters most.
CREATE INDEX memory_pinned ON memory (org, at, id) WHERE pinned = 1;
CREATE INDEX memory_important ON memory (org, at, id) WHERE importance > 0.7;
-- The terms themselves begin with their tenant's sign.
CREATE INDEX memory_words ON memory USING gin (words);

-- In how many memories each term stands.
CREATE TABLE word (
    org  text COLLATE "C" NOT NULL,
    term text COLLATE "C" NOT NULL,
    docs bigint NOT NULL,
    PRIMARY KEY (org, term)
) WITH (fillfactor = 70);

CREATE TABLE relation (
    org        text COLLATE "C" NOT NULL,
    source     text COLLATE "C" NOT NULL,
    target     text COLLATE "C" NOT NULL,
    kind       text COLLATE "C" NOT NULL,
    strength   double precision NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (org, source, target, kind),
    FOREIGN KEY (org, source) REFERENCES memory (org, id) ON DELETE CASCADE,
    FOREIGN KEY (org, target) REFERENCES memory (org, id) ON DELETE CASCADE
);
CREATE INDEX relation_target ON relation (org, target);

-- Not a foreign key: the entry that says a memory was purged outlives it.
CREATE TABLE history (
    org     text COLLATE "C" NOT NULL,
    memory  text COLLATE "C" NOT NULL,
    seq     bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    at      bigint NOT NULL,
    action  text COLLATE "C" NOT NULL,
    changes text COLLATE "C" NOT NULL,
    PRIMARY KEY (org, memory, seq)
);

-- Apart from the memory, so that counting a use never rewrites a long text.
CREATE TABLE usage (
    org     text COLLATE "C" NOT NULL,
    seq     bigint NOT NULL,
    count   bigint NOT NULL,
    last_at bigint NOT NULL,
    PRIMARY KEY (org, seq),
    FOREIGN KEY (org, seq) REFERENCES memory (org, seq) ON DELETE CASCADE
) WITH (fillfactor = 80);

-- What recall keeps beside the texts; all of it can be made again from the memories.
CREATE TABLE passage (
    org    text COLLATE "C" NOT NULL,
    memory bigint NOT NULL,
    place  integer NOT NULL,
    start  integer NOT NULL,
    stop   integer NOT NULL,
    flags  integer NOT NULL,
    codes  bytea NOT NULL,
    PRIMARY KEY (org, memory, place),
    FOREIGN KEY (org, memory) REFERENCES memory (org, seq) ON DELETE CASCADE
);

-- Whose vectors are kept.
CREATE TABLE embedding (
    org        text COLLATE "C" NOT NULL,
    generation integer NOT NULL,
    name       text COLLATE "C" NOT NULL,
    dimensions integer NOT NULL,
    state      text COLLATE "C" NOT NULL CHECK (state IN ('current', 'building')),
    PRIMARY KEY (org, generation),
    UNIQUE (org, state)
);

-- Each vector in bytes of -127 to 127, and as one bit for each number's sign.
CREATE TABLE passage_vector (
    org        text COLLATE "C" NOT NULL,
    memory     bigint NOT NULL,
    place      integer NOT NULL,
    generation integer NOT NULL,
    vector     bytea NOT NULL,
    code       bit varying NOT NULL,
    PRIMARY KEY (org, memory, place, generation),
    FOREIGN KEY (org, memory, place) REFERENCES passage (org, memory, place) ON DELETE CASCADE
);

-- Memories with a passage that has no vector yet.
CREATE TABLE backlog (
    org    text COLLATE "C" NOT NULL,
    memory bigint NOT NULL,
    PRIMARY KEY (org, memory),
    FOREIGN KEY (org, memory) REFERENCES memory (org, seq) ON DELETE CASCADE
);

-- What entered the context of agents' sessions, and what their tools said, kept whole.
CREATE TABLE session (
    org          text COLLATE "C" NOT NULL,
    id           text COLLATE "C" NOT NULL,
    project      text COLLATE "C" NOT NULL,
    "user"       text COLLATE "C" NOT NULL,
    agent        text COLLATE "C" NOT NULL,
    name         text COLLATE "C" NOT NULL,
    created_at   bigint NOT NULL,
    updated_at   bigint NOT NULL,
    turn         bigint NOT NULL,
    -- Counts every entry and every use of one, and so tells which came last.
    clock        bigint NOT NULL,
    system       bigint NOT NULL,
    history      bigint NOT NULL,
    tool_results bigint NOT NULL,
    user_message bigint NOT NULL,
    turn_results bigint NOT NULL,
    results      bigint NOT NULL,
    delivered    bigint NOT NULL,
    evicted      bigint NOT NULL,
    warned       bigint NOT NULL,
    holds        text COLLATE "C" NOT NULL,
    secret       bytea NOT NULL,
    budget       text COLLATE "C" NOT NULL,
    calibration  text COLLATE "C" NOT NULL,
    name_key     text COLLATE "C" NOT NULL GENERATED ALWAYS AS (
        md5(md5(project) || md5("user") || md5(agent) || md5(name))
    ) STORED,
    PRIMARY KEY (org, id),
    UNIQUE (org, name_key)
) WITH (fillfactor = 80);
CREATE INDEX session_changed ON session (org, updated_at);

CREATE TABLE entry (
    org           text COLLATE "C" NOT NULL,
    session       text COLLATE "C" NOT NULL,
    seq           bigint NOT NULL,
    handle        text COLLATE "C" NOT NULL,
    turn          bigint NOT NULL,
    at            bigint NOT NULL,
    used          bigint NOT NULL,
    category      text COLLATE "C" NOT NULL,
    role          text COLLATE "C" NOT NULL,
    level         text COLLATE "C" NOT NULL,
    pinned        smallint NOT NULL,
    error         smallint NOT NULL,
    media         text COLLATE "C" NOT NULL,
    size          bigint NOT NULL,
    start         bigint NOT NULL,
    stop          bigint NOT NULL,
    tokens        bigint NOT NULL,
    total_tokens  bigint NOT NULL,
    digest_tokens bigint NOT NULL,
    stub_tokens   bigint NOT NULL,
    shape         text COLLATE "C" NOT NULL,
    name          text COLLATE "C" NOT NULL,
    tool          text COLLATE "C" NOT NULL,
    call_id       text COLLATE "C" NOT NULL,
    pair          bigint NOT NULL,
    origin        text COLLATE "C" NOT NULL,
    content       bytea NOT NULL,
    digest        text COLLATE "C" NOT NULL,
    stub          text COLLATE "C" NOT NULL,
    note          text COLLATE "C" NOT NULL,
    -- A call's id may be as long as its model likes.
    call_key      text COLLATE "C" NOT NULL GENERATED ALWAYS AS (
        CASE WHEN call_id = '' THEN '' ELSE md5(call_id) END
    ) STORED,
    PRIMARY KEY (org, session, seq),
    FOREIGN KEY (org, session) REFERENCES session (org, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX entry_handle ON entry (org, handle);
CREATE INDEX entry_content ON entry (org, content);
-- A call is looked for by whoever answers it.
CREATE INDEX entry_call ON entry (org, session, call_key, seq) WHERE call_key <> '';
-- What is in the context is found without a look at what has left it.
CREATE INDEX entry_held ON entry (org, session, category, seq) WHERE level <> 'gone';

-- One copy of each content, however often it was said.
CREATE TABLE content (
    org     text COLLATE "C" NOT NULL,
    hash    bytea NOT NULL,
    used_at bigint NOT NULL,
    bytes   bigint NOT NULL,
    codec   text COLLATE "C" NOT NULL,
    data    bytea NOT NULL,
    PRIMARY KEY (org, hash)
);
-- It is packed already.
ALTER TABLE content ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE INDEX content_age ON content (org, used_at, bytes);

-- What a turn left in the context when it ended, and what was taken out of it.
CREATE TABLE turn (
    org          text COLLATE "C" NOT NULL,
    session      text COLLATE "C" NOT NULL,
    number       bigint NOT NULL,
    at           bigint NOT NULL,
    system       bigint NOT NULL,
    history      bigint NOT NULL,
    tool_results bigint NOT NULL,
    user_message bigint NOT NULL,
    evicted      bigint NOT NULL,
    PRIMARY KEY (org, session, number),
    FOREIGN KEY (org, session) REFERENCES session (org, id) ON DELETE CASCADE
);

-- The only way past the policies, for the one tenant that the transaction is bound to: under them PostgreSQL
-- does not use an index for @@, which could tell of the rows it looks at.
CREATE FUNCTION matching(query tsquery) RETURNS SETOF bigint
LANGUAGE sql STABLE SECURITY DEFINER ROWS 1000
AS $$
    SELECT m.seq FROM memory m
    WHERE m.org = nullif(current_setting('satchel.org', true), '') AND m.words @@ query
$$;

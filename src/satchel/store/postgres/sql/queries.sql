-- Named statements, like SQLite's. {columns} are the columns of a memory, {where} is a filter on m.
-- :org is the tenant of the transaction, unless a call passes another value.
-- Large tables are not joined: before the first ANALYZE, PostgreSQL estimates one or two rows for a tenant and chooses
-- nested loops over all of them. Keys are passed as arrays instead, and filters on other tables are scalar subqueries,
-- which are not turned into joins.

-- name: update_memory
UPDATE memory SET {assignments} WHERE org = :org AND id = :id

-- name: memory_by_ref
SELECT {columns} FROM memory m
WHERE m.org = :org AND m.ref_key = md5(md5(:project) || md5(:user) || md5(:agent) || md5(:session) || md5(:ref))

-- name: memory_by_topic
SELECT {columns} FROM memory m
WHERE m.org = :org AND m.topic_id = md5(md5(:project) || md5(:user) || md5(:agent) || md5(:topic_key))

-- Which names of a list belong to memories, by their places in the list.
-- name: refs_held
SELECT j.place - 1 FROM json_array_elements(:keys::json) WITH ORDINALITY j (value, place) WHERE EXISTS (SELECT 1 FROM memory m
    WHERE m.org = :org AND m.ref_key = md5(md5(j.value ->> 2) || md5(j.value ->> 3) || md5(j.value ->> 4) || md5(j.value ->> 5) || md5(j.value ->> 6)))

-- name: topics_held
SELECT j.place - 1 FROM json_array_elements(:keys::json) WITH ORDINALITY j (value, place) WHERE EXISTS (SELECT 1 FROM memory m
    WHERE m.org = :org AND m.topic_id = md5(md5(j.value ->> 2) || md5(j.value ->> 3) || md5(j.value ->> 4) || md5(j.value ->> 5)))

-- name: text_key_held
SELECT m.text_key FROM memory m WHERE m.org = :org AND m.text_key = :key LIMIT 1

-- name: text_keys_held
SELECT DISTINCT m.text_key FROM memory m
WHERE m.org = :org AND m.text_key = ANY (ARRAY(SELECT json_array_elements_text(:keys::json)::bigint))

-- name: id_exists
SELECT 1 FROM memory WHERE org = :org AND id = :id

-- name: memory_in_scope
SELECT {columns} FROM memory m WHERE m.org = :org AND m.id = :id AND {where}

-- name: ids_with_prefix
SELECT m.id FROM memory m WHERE m.org = :org AND m.id >= :first AND m.id <= :last AND {where} ORDER BY m.id LIMIT :limit

-- For each id, the nearest tails of other memories: at most its own and at least its own.
-- name: tails_beside
SELECT j.id,
    (SELECT max(b.tail) FROM memory b WHERE b.org = :org AND b.tail <= right(j.id, 10) AND b.id <> j.id),
    (SELECT min(a.tail) FROM memory a WHERE a.org = :org AND a.tail >= right(j.id, 10) AND a.id <> j.id),
    (SELECT coalesce(max(seq), 0) FROM memory WHERE org = :org)
FROM (SELECT json_array_elements_text(:ids::json) COLLATE "C" AS id) j

-- name: memory_by_seq
SELECT {columns} FROM memory m WHERE m.org = :org AND m.seq = :seq

-- Two statements without subqueries, which Citus plans several times as fast as one with them.
-- name: memories_by_seq
SELECT {read_columns}, m.seq FROM memory m WHERE m.org = :org AND m.seq = ANY (:numbers::bigint[])

-- name: uses_by_seq
SELECT seq, count, last_at FROM usage WHERE org = :org AND seq = ANY (:numbers::bigint[])

-- name: upsert_relation
INSERT INTO relation (org, source, target, kind, strength, created_at) VALUES (:org, :source, :target, :kind, :strength, :created_at)
ON CONFLICT (org, source, target, kind) DO UPDATE
SET strength = excluded.strength, created_at = excluded.created_at

-- name: relations_between
SELECT r.source, r.target, r.kind, r.strength, r.created_at
FROM relation r
WHERE r.org = :org AND (SELECT true FROM memory m WHERE m.org = :org AND m.id = r.source AND {where})
    AND (r.source, r.target, r.kind) > (:source, :target, :kind)
    AND (SELECT true FROM memory o WHERE o.org = :org AND o.id = r.target AND {where_target})
ORDER BY r.source, r.target, r.kind LIMIT :limit

-- name: delete_memory
DELETE FROM memory WHERE org = :org AND id = :id

-- name: add_usage
INSERT INTO usage (org, seq, count, last_at)
SELECT org, seq, :count::bigint, :last_at::bigint FROM memory WHERE org = :org AND id = :id
ON CONFLICT (org, seq) DO UPDATE
SET count = usage.count + excluded.count, last_at = greatest(usage.last_at, excluded.last_at)

-- name: set_usage
INSERT INTO usage (org, seq, count, last_at)
SELECT org, seq, :count::bigint, :last_at::bigint FROM memory WHERE org = :org AND id = :id
ON CONFLICT (org, seq) DO UPDATE SET count = excluded.count, last_at = excluded.last_at

-- name: totals
SELECT count(*), coalesce(sum(m.tokens), 0)::bigint, min(m.at), max(m.at),
    count(*) FILTER (WHERE m.status = 'active' AND (m.valid_from IS NULL OR m.valid_from <= :now)
        AND (m.invalid_at IS NULL OR m.invalid_at > :now))
FROM memory m WHERE {where}

-- name: memory_seq
SELECT seq FROM memory WHERE org = :org AND id = :id

-- name: memories_after
SELECT {columns}, m.seq FROM memory m WHERE m.org = :org AND m.seq > :after ORDER BY m.seq LIMIT :limit

-- The number of a passage is that of its memory, shifted by 12 bits, plus its position in the text.
-- name: insert_passage
INSERT INTO passage (org, memory, place, start, stop, flags, codes)
VALUES (:org, :number::bigint >> 12, :number::bigint & 4095, :start, :stop, :flags, :codes)

-- name: delete_passages
DELETE FROM passage WHERE org = :org AND memory >= :start::bigint >> 12 AND memory < :stop::bigint >> 12

-- name: passages_of
SELECT (memory << 12) + place FROM passage
WHERE org = :org AND memory >= :start::bigint >> 12 AND memory < :stop::bigint >> 12

-- name: vectors_of
SELECT (memory << 12) + place FROM passage_vector
WHERE org = :org AND generation = {generation}
    AND (memory, place) >= (:start::bigint >> 12, (:start::bigint & 4095)::integer)
    AND (memory, place) < (:stop::bigint >> 12, (:stop::bigint & 4095)::integer)

-- name: write_vector
INSERT INTO passage_vector (org, memory, place, generation, vector, code)
VALUES (:org, :number::bigint >> 12, :number::bigint & 4095, {generation}, :vector, :code::varbit)

-- name: delete_vector
DELETE FROM passage_vector
WHERE org = :org AND memory = :number::bigint >> 12 AND place = (:number::bigint & 4095)::integer AND generation = {generation}

-- name: delete_vectors
DELETE FROM passage_vector WHERE org = :org AND generation = {generation}

-- name: generation
SELECT generation, name, dimensions FROM embedding WHERE org = :org AND state = :state

-- Not one statement: Citus does not insert what a subquery returns.
-- name: next_generation
SELECT coalesce(max(generation), 0) + 1 FROM embedding WHERE org = :org

-- name: insert_generation
INSERT INTO embedding (org, generation, name, dimensions, state) VALUES (:org, :generation, :name, :dimensions, :state)

-- name: delete_generation
DELETE FROM embedding WHERE org = :org AND generation = :generation

-- name: make_current
UPDATE embedding SET state = 'current' WHERE org = :org AND generation = :generation

-- name: count_missing
SELECT count(*) FROM passage p WHERE p.org = :org AND (
    SELECT true FROM passage_vector v
    WHERE v.org = :org AND v.memory = p.memory AND v.place = p.place AND v.generation = {generation}
) IS NULL

-- name: missing_passages
SELECT (p.memory << 12) + p.place FROM passage p
WHERE p.org = :org AND (p.memory, p.place) > (:after::bigint >> 12, (:after::bigint & 4095)::integer) AND (
    SELECT true FROM passage_vector v
    WHERE v.org = :org AND v.memory = p.memory AND v.place = p.place AND v.generation = {generation}
) IS NULL ORDER BY p.memory, p.place LIMIT :limit

-- name: insert_backlog
INSERT INTO backlog (org, memory) VALUES (:org, :memory::bigint) ON CONFLICT DO NOTHING

-- name: delete_backlog
DELETE FROM backlog WHERE org = :org AND memory = :memory

-- name: clear_backlog
DELETE FROM backlog WHERE org = :org

-- name: waiting_memory
SELECT {columns} FROM memory m
WHERE m.org = :org AND m.seq = :memory AND (SELECT true FROM backlog b WHERE b.org = :org AND b.memory = :memory)

-- name: backlog
SELECT {columns}, m.seq FROM memory m WHERE m.org = :org AND m.seq = ANY (
    ARRAY(SELECT b.memory FROM backlog b WHERE b.org = :org ORDER BY b.memory LIMIT :limit)
) ORDER BY m.seq

-- name: first_of_backlog
SELECT memory FROM backlog WHERE org = :org LIMIT 1

-- name: count_backlog
SELECT count(*) FROM backlog WHERE org = :org

-- name: count_some
SELECT count(*) FROM (SELECT 1 FROM memory m WHERE {where} LIMIT :most) counted

-- In the order of `Trace`. A thread is identified by its session or document and the scope of that.
-- name: traced_memories
SELECT m.seq, m.at, m.id,
    CASE WHEN m.session <> '' THEN {thread_of_session} WHEN m.source IS NOT NULL THEN {thread_of_source} END,
    m.speaker, m.kind, m.tier, m.importance, m.confidence, m.pinned, m.tokens, m.status, m.valid_from, m.invalid_at
FROM memory m WHERE {where} ORDER BY m.at, m.id

-- name: traced_uses
SELECT seq, count FROM usage WHERE org = :org AND seq = ANY (:numbers::bigint[])

-- name: traced_passages
SELECT memory, start, stop, flags, codes FROM passage
WHERE org = :org AND memory = ANY (:numbers::bigint[]) ORDER BY memory, place

-- name: traced_vectors
SELECT memory, place, vector FROM passage_vector
WHERE org = :org AND memory = ANY (:numbers::bigint[]) AND generation = {generation}

-- The neighbours of many memories in their sessions or documents, with one query.
-- name: beside
SELECT t.origin, b.seq, b.later FROM unnest(
    :origins::bigint[], :projects::text[], :users::text[], :agents::text[], :threads::text[], :ats::bigint[], :ids::text[]
) t(origin, project, "user", agent, thread, at, id) CROSS JOIN LATERAL (
    (SELECT m.seq, m.at, m.id, false AS later FROM memory m
        WHERE m.org = :org AND {same} AND m.project = t.project AND m.user = t.user AND m.agent = t.agent
            AND (m.at, m.id) < (t.at, t.id COLLATE "C") AND {where} ORDER BY m.at DESC, m.id DESC LIMIT {reach})
    UNION ALL
    (SELECT m.seq, m.at, m.id, true FROM memory m
        WHERE m.org = :org AND {same} AND m.project = t.project AND m.user = t.user AND m.agent = t.agent
            AND (m.at, m.id) > (t.at, t.id COLLATE "C") AND {where} ORDER BY m.at, m.id LIMIT {reach})
) b ORDER BY t.origin, b.at, b.id

-- name: newest_seq
SELECT coalesce(max(seq), 0) FROM memory WHERE org = :org

-- name: numbers_of_ids
SELECT seq FROM memory WHERE org = :org AND id = ANY (:ids::text[])

-- name: ids_of_seqs
SELECT seq, id FROM memory WHERE org = :org AND seq = ANY (:numbers::bigint[])

-- name: relations_at
SELECT {near}, {far}, kind, strength FROM relation WHERE org = :org AND {near} = ANY (:ids::text[])

-- name: seqs_of_ids
SELECT m.id, m.seq FROM memory m WHERE m.org = :org AND m.id = ANY (:ids::text[]) AND {where}

-- Word counts, which triggers keep in SQLite.
-- The org comes from a table, so that Citus sends the statement to its node and does not collect the rows itself.
-- name: count_terms
INSERT INTO word (org, term, docs) SELECT o.org, t.term, t.docs
FROM tenant o CROSS JOIN unnest(:terms::text[], :counts::bigint[]) t(term, docs) WHERE o.org = :org
ON CONFLICT (org, term) DO UPDATE SET docs = word.docs + excluded.docs

-- name: drop_terms
DELETE FROM word WHERE org = :org AND docs <= 0 AND term = ANY (:terms::text[])

-- name: count_words
UPDATE tenant SET memories = memories + :memories::bigint, words = words + :words::bigint WHERE org = :org

-- name: count_change
UPDATE tenant SET changes = changes + 1 WHERE org = :org RETURNING changes

-- name: insert_change
INSERT INTO change (org, number, memories) VALUES (:org, :number, :numbers::bigint[])

-- name: trim_changes
DELETE FROM change WHERE org = :org AND number <= :number

-- name: last_change
SELECT number, mark FROM change WHERE org = :org ORDER BY number DESC LIMIT 1

-- name: change_mark
SELECT mark FROM change WHERE org = :org AND number = :number

-- name: changed_since
SELECT memory FROM change c CROSS JOIN LATERAL unnest(c.memories) AS memory
WHERE c.org = :org AND c.number > :number LIMIT :limit

-- name: words_of
SELECT m.length, ARRAY(SELECT substr(w.lexeme, {sign} + 1) FROM unnest(m.words) w) FROM memory m
WHERE m.org = :org AND m.seq = ANY (:numbers::bigint[])

-- name: word_counts
SELECT w.term, w.docs FROM word w WHERE w.org = :org AND w.term = ANY (:terms::text[])

-- name: tenant_counts
SELECT memories, words FROM tenant WHERE org = :org

-- name: words_between
SELECT term FROM word WHERE org = :org AND term >= :start AND term < :stop AND length(term) BETWEEN :shortest AND :longest ORDER BY term

-- The memories with a word, through the index: see 0007_matching.sql.
-- name: matching
SELECT matching(:org, :query::tsquery)

-- name: search
SELECT m.seq, {score} AS score FROM memory m
WHERE m.org = :org AND {matching} AND {where}
ORDER BY score DESC, m.at DESC, m.id LIMIT :limit

-- name: nearest
SELECT v.memory, v.code <~> :code::varbit AS distance FROM passage_vector v
WHERE v.org = :org AND v.generation = {generation} ORDER BY 2, 1 LIMIT :limit

-- name: nearest_among
SELECT v.memory, v.code <~> :code::varbit AS distance FROM passage_vector v
WHERE v.org = :org AND v.generation = {generation} AND v.memory = ANY (:numbers::bigint[]) ORDER BY 2, 1 LIMIT :limit

-- name: index_ready
SELECT coalesce((SELECT i.indisvalid AND i.indisready FROM pg_index i WHERE i.indexrelid = to_regclass(:index)), false)

-- The tenant is a literal, as in the definition of its index.
-- name: nearest_by_index
SELECT v.memory, v.code::bit({bits}) <~> :code::bit({bits}) AS distance FROM passage_vector v
WHERE v.org = {tenant} AND v.generation = {generation} ORDER BY v.code::bit({bits}) <~> :code::bit({bits}) LIMIT :limit

-- name: matching_seqs
SELECT m.seq FROM memory m WHERE {where}

-- name: seqs_among
SELECT m.seq FROM memory m WHERE m.org = :org AND m.seq = ANY (:numbers::bigint[]) AND {where}

-- name: new_tenant
INSERT INTO tenant (org) VALUES (:org) ON CONFLICT (org) DO NOTHING

-- Locks the row until the transaction ends.
-- name: hold_tenant
UPDATE tenant SET mark = :mark WHERE org = :org RETURNING 1

-- name: uses_of
SELECT seq, count, last_at FROM usage WHERE org = :org AND seq = ANY (ARRAY(SELECT json_array_elements_text(:numbers::json)::bigint))

-- name: passages_held
SELECT memory, place, start, stop, flags, codes FROM passage
WHERE org = :org AND memory = ANY (ARRAY(SELECT json_array_elements_text(:numbers::json)::bigint)) ORDER BY memory, place

-- varbit_send returns the length in four bytes, then the bits.
-- name: vectors_held
SELECT memory, place, vector, substring(varbit_send(code) FROM 5) FROM passage_vector
WHERE org = :org AND memory = ANY (ARRAY(SELECT json_array_elements_text(:numbers::json)::bigint)) AND generation = {generation}
ORDER BY memory, place

-- name: histories_of
SELECT memory, at, action, changes FROM history
WHERE org = :org AND memory = ANY (ARRAY(SELECT json_array_elements_text(:ids::json))) ORDER BY memory, seq

-- name: purged_page
SELECT h.memory, h.seq, h.at, h.action, h.changes FROM history h
WHERE h.org = :org AND (h.memory, h.seq) > (:memory, :seq)
    AND (SELECT true FROM memory m WHERE m.org = :org AND m.id = h.memory) IS NULL
ORDER BY h.memory, h.seq LIMIT :limit

-- In the order of `Mark`.
-- name: marks
SELECT m.seq, m.id, m.updated_at, (SELECT count(*) FROM history h WHERE h.org = :org AND h.memory = m.id),
    (SELECT u.count FROM usage u WHERE u.org = :org AND u.seq = m.seq),
    (SELECT u.last_at FROM usage u WHERE u.org = :org AND u.seq = m.seq),
    (SELECT 1 FROM backlog b WHERE b.org = :org AND b.memory = m.seq)
FROM memory m WHERE {where} ORDER BY m.seq LIMIT :limit

-- name: raise_usage
INSERT INTO usage (org, seq, count, last_at)
SELECT org, seq, :count::bigint, :last_at::bigint FROM memory WHERE org = :org AND id = :id
ON CONFLICT (org, seq) DO UPDATE
SET count = greatest(usage.count, excluded.count), last_at = greatest(usage.last_at, excluded.last_at)

-- name: renew_relation
INSERT INTO relation (org, source, target, kind, strength, created_at) VALUES (:org, :source, :target, :kind, :strength, :created_at)
ON CONFLICT (org, source, target, kind) DO UPDATE
SET strength = excluded.strength, created_at = excluded.created_at
WHERE relation.created_at < excluded.created_at

-- name: amounts
SELECT (SELECT count(*) FROM memory WHERE org = :org),
    (SELECT count(*) FROM usage WHERE org = :org),
    (SELECT count(*) FROM history WHERE org = :org),
    (SELECT count(*) FROM relation WHERE org = :org),
    (SELECT count(*) FROM passage WHERE org = :org),
    (SELECT count(*) FROM session WHERE org = :org),
    (SELECT count(*) FROM entry WHERE org = :org),
    (SELECT count(*) FROM turn WHERE org = :org),
    (SELECT count(*) FROM content WHERE org = :org)

-- name: amount_of_vectors
SELECT count(*) FROM passage_vector WHERE org = :org AND generation = {generation}

-- name: orgs
SELECT org FROM tenant ORDER BY org

-- name: org_exists
SELECT EXISTS (SELECT 1 FROM tenant WHERE org = :org)

-- Identifies the database, however its address was written.
-- name: whereabouts
SELECT concat_ws(' ', pg_postmaster_start_time(), (SELECT oid FROM pg_database WHERE datname = current_database()))

-- Rows that are not deleted with memories or sessions.
-- name: erase_rest
WITH history AS (DELETE FROM history WHERE org = :org), words AS (DELETE FROM word WHERE org = :org),
    embedding AS (DELETE FROM embedding WHERE org = :org), changes AS (DELETE FROM change WHERE org = :org)
DELETE FROM tenant WHERE org = :org

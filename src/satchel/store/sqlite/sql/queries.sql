-- Named statements. {columns} are the columns of a memory, {where} is a filter on m.
-- CROSS JOIN fixes the join order: SQLite must not start from the filter and scan a project.

-- name: update_memory
UPDATE memory SET {assignments} WHERE id = :id

-- name: memory_by_ref
SELECT {columns} FROM memory m
WHERE m.org = :org AND m.project = :project AND m.user = :user AND m.agent = :agent AND m.session = :session AND m.ref = :ref

-- name: memory_by_topic
SELECT {columns} FROM memory m
WHERE m.org = :org AND m.project = :project AND m.user = :user AND m.agent = :agent AND m.topic_key = :topic_key

-- Which names of a list belong to memories, by their places in the list.
-- name: refs_held
SELECT j.key FROM json_each(:keys) j WHERE EXISTS (SELECT 1 FROM memory m
    WHERE m.org = j.value ->> 1 AND m.project = j.value ->> 2 AND m.user = j.value ->> 3 AND m.agent = j.value ->> 4
        AND m.session = j.value ->> 5 AND m.ref = j.value ->> 6)

-- name: topics_held
SELECT j.key FROM json_each(:keys) j WHERE EXISTS (SELECT 1 FROM memory m
    WHERE m.org = j.value ->> 1 AND m.project = j.value ->> 2 AND m.user = j.value ->> 3 AND m.agent = j.value ->> 4
        AND m.topic_key = j.value ->> 5)

-- name: text_keys_held
SELECT DISTINCT m.text_key FROM memory m WHERE +m.org = :org AND m.text_key IN (SELECT value FROM json_each(:keys))

-- Much faster than a list of one.
-- name: text_key_held
SELECT m.text_key FROM memory m WHERE +m.org = :org AND m.text_key = :key LIMIT 1

-- name: texts_with_keys
SELECT {columns}, m.seq, m.text_key FROM memory m WHERE m.seq > :after ORDER BY m.seq LIMIT :limit

-- name: set_text_key
UPDATE memory SET text_key = :text_key WHERE seq = :seq

-- name: id_exists
SELECT 1 FROM memory WHERE id = :id

-- name: memory_in_scope
SELECT {columns} FROM memory m WHERE m.id = :id AND {where}

-- name: ids_with_prefix
SELECT m.id FROM memory m WHERE m.id >= :first AND m.id <= :last AND {where} ORDER BY m.id LIMIT :limit

-- For each id, the nearest tails of other memories: at most its own and at least its own.
-- name: tails_beside
SELECT j.value,
    (SELECT max(b.tail) FROM memory b WHERE b.org = :org AND b.tail <= substr(j.value, -10) AND b.id <> j.value),
    (SELECT min(a.tail) FROM memory a WHERE a.org = :org AND a.tail >= substr(j.value, -10) AND a.id <> j.value),
    (SELECT coalesce(max(seq), 0) FROM memory)
FROM json_each(:ids) j

-- The filter applies to the best matches only: exact as long as enough of them pass it.
-- name: search_best
SELECT m.seq, f.score, m.at, m.id FROM (
    SELECT rowid AS seq, bm25(memory_fts, {weights}) AS score FROM memory_fts
    WHERE memory_fts MATCH :match ORDER BY score LIMIT :depth
) f CROSS JOIN memory m ON m.seq = f.seq
WHERE {where} ORDER BY f.score, m.at DESC, m.id

-- name: search_leading
SELECT rowid, bm25(memory_fts, {weights}) AS score FROM memory_fts
WHERE memory_fts MATCH :match ORDER BY score LIMIT :limit

-- name: search_filtered
SELECT m.seq, bm25(memory_fts, {weights}) AS score, m.at, m.id
FROM memory_fts CROSS JOIN memory m ON m.seq = memory_fts.rowid
WHERE memory_fts MATCH :match AND {where} ORDER BY score, m.at DESC, m.id LIMIT :limit

-- name: memory_by_seq
SELECT {columns} FROM memory m WHERE m.seq = :seq

-- name: memories_by_seq
SELECT {columns}, m.seq FROM json_each(:numbers) j CROSS JOIN memory m ON m.seq = j.value

-- name: upsert_relation
INSERT INTO relation (org, source, target, kind, strength, created_at) VALUES (:org, :source, :target, :kind, :strength, :created_at)
ON CONFLICT (source, target, kind) DO UPDATE
SET strength = excluded.strength, created_at = excluded.created_at

-- name: relations_between
SELECT r.source, r.target, r.kind, r.strength, r.created_at
FROM relation r JOIN memory m ON m.id = r.source
WHERE {where} AND (r.source, r.target, r.kind) > (:source, :target, :kind)
    AND EXISTS (SELECT 1 FROM memory o WHERE o.id = r.target AND {where_target})
ORDER BY r.source, r.target, r.kind LIMIT :limit

-- name: delete_memory
DELETE FROM memory WHERE id = :id

-- name: add_usage
INSERT INTO usage (seq, count, last_at) SELECT seq, :count, :last_at FROM memory WHERE id = :id
ON CONFLICT (seq) DO UPDATE
SET count = count + excluded.count, last_at = max(last_at, excluded.last_at)

-- name: set_usage
INSERT INTO usage (seq, count, last_at) SELECT seq, :count, :last_at FROM memory WHERE id = :id
ON CONFLICT (seq) DO UPDATE SET count = excluded.count, last_at = excluded.last_at

-- name: totals
SELECT count(*), coalesce(sum(m.tokens), 0), min(m.at), max(m.at),
    coalesce(sum(m.status = 'active' AND (m.valid_from IS NULL OR m.valid_from <= :now)
        AND (m.invalid_at IS NULL OR m.invalid_at > :now)), 0)
FROM memory m WHERE {where}

-- name: memory_seq
SELECT seq FROM memory WHERE id = :id

-- name: memories_after
SELECT {columns}, m.seq FROM memory m WHERE m.seq > :after ORDER BY m.seq LIMIT :limit

-- name: insert_passage
INSERT INTO passage (seq, start, stop, flags, codes) VALUES (:number, :start, :stop, :flags, :codes)

-- name: insert_vector
INSERT INTO {vectors} (passage, vector) VALUES (:passage, :vector)

-- name: delete_passages
DELETE FROM passage WHERE seq >= :start AND seq < :stop

-- name: passages_of
SELECT seq FROM passage WHERE seq >= :start AND seq < :stop

-- name: vectors_of
SELECT passage FROM {vectors} WHERE passage >= :start AND passage < :stop

-- name: newest_vector
SELECT max(passage) FROM {vectors}

-- name: vectors_between
SELECT passage, vector FROM {vectors} WHERE passage >= :start AND passage < :stop AND length(vector) = :size

-- name: chunks
SELECT chunk, passages, codes FROM {codes}

-- name: chunks_of
SELECT chunk, passages, codes FROM {codes} WHERE chunk IN (SELECT value FROM json_each(:chunks))

-- name: next_chunk
SELECT coalesce(max(chunk), -1) + 1 FROM {codes}

-- name: empty_chunks
SELECT chunk FROM {codes} WHERE codes IS NULL

-- name: empty_chunk
UPDATE {codes} SET passages = NULL, codes = NULL WHERE chunk = :chunk

-- name: put_chunk
INSERT OR REPLACE INTO {codes} (chunk, passages, codes) VALUES (:chunk, :passages, :codes)

-- name: delete_chunks
DELETE FROM {codes} WHERE chunk >= :chunk

-- name: generation
SELECT generation, name, dimensions FROM embedding WHERE state = :state

-- name: insert_generation
INSERT INTO embedding (name, dimensions, state) VALUES (:name, :dimensions, :state) RETURNING generation

-- name: delete_generation
DELETE FROM embedding WHERE generation = :generation

-- name: make_current
UPDATE embedding SET state = 'current' WHERE generation = :generation

-- name: count_missing
SELECT count(*) FROM passage p WHERE NOT EXISTS (SELECT 1 FROM {vectors} v WHERE v.passage = p.seq)

-- name: missing_passages
SELECT p.seq FROM passage p
WHERE p.seq > :after AND NOT EXISTS (SELECT 1 FROM {vectors} v WHERE v.passage = p.seq) ORDER BY p.seq LIMIT :limit

-- name: insert_backlog
INSERT OR IGNORE INTO backlog (memory) VALUES (:memory)

-- name: delete_backlog
DELETE FROM backlog WHERE memory = :memory

-- name: clear_backlog
DELETE FROM backlog

-- name: waiting_memory
SELECT {columns} FROM backlog b CROSS JOIN memory m ON m.seq = b.memory WHERE b.memory = :memory

-- name: backlog
SELECT {columns}, m.seq FROM backlog b CROSS JOIN memory m ON m.seq = b.memory ORDER BY b.memory LIMIT :limit

-- name: count_some
SELECT count(*) FROM (SELECT 1 FROM memory m WHERE {where} LIMIT :most)

-- In the order of `Trace`. A thread is identified by its session or document and the scope of that.
-- name: traces
SELECT m.seq, m.at, m.id,
    CASE WHEN m.session <> '' THEN json_array('session', m.project, m.user, m.agent, m.session)
        WHEN m.source IS NOT NULL THEN json_array('source', m.project, m.user, m.agent, m.source)
    END,
    m.speaker, m.kind, m.tier, m.importance, m.confidence, m.pinned, m.tokens, m.status, m.valid_from, m.invalid_at,
    coalesce((SELECT u.count FROM usage u WHERE u.seq = m.seq), 0),
    p.start, p.stop, p.flags, p.codes, NULL
FROM {memories} CROSS JOIN passage p ON p.seq BETWEEN m.seq << 12 AND (m.seq << 12) + 4095
WHERE {where} ORDER BY m.at, m.id, p.seq

-- name: traces_with_vectors
SELECT m.seq, m.at, m.id,
    CASE WHEN m.session <> '' THEN json_array('session', m.project, m.user, m.agent, m.session)
        WHEN m.source IS NOT NULL THEN json_array('source', m.project, m.user, m.agent, m.source)
    END,
    m.speaker, m.kind, m.tier, m.importance, m.confidence, m.pinned, m.tokens, m.status, m.valid_from, m.invalid_at,
    coalesce((SELECT u.count FROM usage u WHERE u.seq = m.seq), 0),
    p.start, p.stop, p.flags, p.codes, v.vector
FROM {memories} CROSS JOIN passage p ON p.seq BETWEEN m.seq << 12 AND (m.seq << 12) + 4095
    LEFT JOIN {vectors} v ON v.passage = p.seq
WHERE {where} ORDER BY m.at, m.id, p.seq

-- name: matching_seqs
SELECT m.seq FROM memory m WHERE {where}

-- name: last_change
SELECT number, mark FROM change ORDER BY number DESC LIMIT 1

-- name: change_mark
SELECT mark FROM change WHERE number = :number

-- Leaves one change that nobody has seen, so that everybody reads everything again.
-- name: forget_changes
INSERT INTO change (memory) VALUES (0);
DELETE FROM change WHERE number < (SELECT max(number) FROM change)

-- name: changed_since
SELECT memory FROM change WHERE number > :number ORDER BY number LIMIT :limit

-- name: seqs_before
SELECT m.seq FROM memory m
WHERE {where} AND (m.at, m.id) < (:at, :id) ORDER BY m.at DESC, m.id DESC LIMIT :limit

-- name: seqs_after
SELECT m.seq FROM memory m
WHERE {where} AND (m.at, m.id) > (:at, :id) ORDER BY m.at, m.id LIMIT :limit

-- name: seqs_among
SELECT m.seq FROM json_each(:numbers) j CROSS JOIN memory m ON m.seq = j.value WHERE {where}

-- name: word_frequency
SELECT doc FROM memory_word WHERE term = :term

-- name: words_between
SELECT term FROM memory_word WHERE term >= :start AND term < :stop AND length(term) BETWEEN :shortest AND :longest

-- name: newest_seq
SELECT coalesce(max(seq), 0) FROM memory

-- name: any_relation
SELECT 1 FROM relation LIMIT 1

-- name: linked
SELECT m.seq, o.seq, r.kind, r.strength
FROM json_each(:numbers) j CROSS JOIN memory o ON o.seq = j.value CROSS JOIN relation r ON r.{near} = o.id
    CROSS JOIN memory m ON m.id = r.{far}
WHERE {where} ORDER BY m.seq, o.seq, r.kind LIMIT :limit

-- name: delete_passage
DELETE FROM passage WHERE seq = :number

-- name: stray_passages
SELECT p.seq FROM passage p WHERE NOT EXISTS (SELECT 1 FROM memory m WHERE m.seq = p.seq >> 12)

-- name: passage_ends
SELECT m.seq, m.text,
    (SELECT count(*) FROM passage p WHERE p.seq BETWEEN m.seq << 12 AND (m.seq << 12) + 4095),
    (SELECT max(p.seq) & 4095 FROM passage p WHERE p.seq BETWEEN m.seq << 12 AND (m.seq << 12) + 4095),
    (SELECT p.start FROM passage p WHERE p.seq = m.seq << 12),
    (SELECT p.stop FROM passage p WHERE p.seq BETWEEN m.seq << 12 AND (m.seq << 12) + 4095
        ORDER BY p.seq DESC LIMIT 1)
FROM memory m

-- name: first_of_backlog
SELECT memory FROM backlog LIMIT 1

-- name: count_backlog
SELECT count(*) FROM backlog

-- name: stray_backlog
SELECT b.memory FROM backlog b WHERE NOT EXISTS (SELECT 1 FROM memory m WHERE m.seq = b.memory)
    OR EXISTS (SELECT 1 FROM embedding e WHERE e.state = 'current' AND e.dimensions = 0)

-- name: overlooked_memories
SELECT seq FROM memory EXCEPT SELECT memory FROM backlog

-- name: overlooked_passages
SELECT DISTINCT p.seq >> 12 FROM passage p
WHERE NOT EXISTS (SELECT 1 FROM {vectors} v WHERE v.passage = p.seq)
    AND NOT EXISTS (SELECT 1 FROM backlog b WHERE b.memory = p.seq >> 12)
    AND EXISTS (SELECT 1 FROM memory m WHERE m.seq = p.seq >> 12)

-- name: uses_of
SELECT u.seq, u.count, u.last_at FROM json_each(:numbers) j CROSS JOIN usage u ON u.seq = j.value

-- name: passages_held
SELECT p.seq >> 12, p.seq & 4095, p.start, p.stop, p.flags, p.codes
FROM json_each(:numbers) j CROSS JOIN passage p ON p.seq BETWEEN j.value << 12 AND (j.value << 12) + 4095 ORDER BY p.seq

-- name: vectors_held
SELECT v.passage >> 12, v.passage & 4095, v.vector, signs(v.vector)
FROM json_each(:numbers) j CROSS JOIN {vectors} v ON v.passage BETWEEN j.value << 12 AND (j.value << 12) + 4095
ORDER BY v.passage

-- name: histories_of
SELECT memory, at, action, changes FROM history
WHERE org = :org AND memory IN (SELECT value FROM json_each(:ids)) ORDER BY memory, seq

-- name: purged_page
SELECT h.memory, h.seq, h.at, h.action, h.changes FROM history h
WHERE h.org = :org AND (h.memory, h.seq) > (:memory, :seq) AND NOT EXISTS (SELECT 1 FROM memory m WHERE m.id = h.memory)
ORDER BY h.memory, h.seq LIMIT :limit

-- In the order of `Mark`.
-- name: marks
SELECT m.seq, m.id, m.updated_at, (SELECT count(*) FROM history h WHERE h.memory = m.id),
    (SELECT u.count FROM usage u WHERE u.seq = m.seq), (SELECT u.last_at FROM usage u WHERE u.seq = m.seq),
    (SELECT 1 FROM backlog b WHERE b.memory = m.seq)
FROM memory m WHERE {where} ORDER BY m.seq LIMIT :limit

-- name: raise_usage
INSERT INTO usage (seq, count, last_at) SELECT seq, :count, :last_at FROM memory WHERE id = :id
ON CONFLICT (seq) DO UPDATE SET count = max(count, excluded.count), last_at = max(last_at, excluded.last_at)

-- name: renew_relation
INSERT INTO relation (org, source, target, kind, strength, created_at) VALUES (:org, :source, :target, :kind, :strength, :created_at)
ON CONFLICT (source, target, kind) DO UPDATE SET strength = excluded.strength, created_at = excluded.created_at
WHERE relation.created_at < excluded.created_at

-- name: amounts
SELECT (SELECT count(*) FROM memory WHERE org = :org),
    (SELECT count(*) FROM memory m CROSS JOIN usage u ON u.seq = m.seq WHERE m.org = :org),
    (SELECT count(*) FROM history WHERE org = :org),
    (SELECT count(*) FROM relation WHERE org = :org),
    (SELECT count(*) FROM memory m
        CROSS JOIN passage p ON p.seq BETWEEN m.seq << 12 AND (m.seq << 12) + 4095 WHERE m.org = :org),
    (SELECT count(*) FROM session WHERE org = :org),
    (SELECT count(*) FROM entry WHERE org = :org),
    (SELECT count(*) FROM turn WHERE org = :org),
    (SELECT count(*) FROM content WHERE org = :org)

-- name: amount_of_vectors
SELECT count(*) FROM memory m
CROSS JOIN {vectors} v ON v.passage BETWEEN m.seq << 12 AND (m.seq << 12) + 4095 WHERE m.org = :org

-- name: orgs
SELECT org FROM memory UNION SELECT org FROM session UNION SELECT org FROM content UNION SELECT org FROM history
ORDER BY org

-- name: org_exists
SELECT EXISTS (SELECT 1 FROM memory WHERE org = :org) OR EXISTS (SELECT 1 FROM session WHERE org = :org)
    OR EXISTS (SELECT 1 FROM content WHERE org = :org) OR EXISTS (SELECT 1 FROM history WHERE org = :org)

-- Identifies the database, however its location was written; empty for one in memory.
-- name: whereabouts
SELECT file FROM pragma_database_list WHERE name = 'main'

-- Rows that are not deleted with memories or sessions.
-- name: erase_rest
DELETE FROM history WHERE org = :org

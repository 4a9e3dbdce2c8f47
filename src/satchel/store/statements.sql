-- Named statements that are the same in every database. {columns} are the columns of a memory, {where} is a filter on m.

-- name: insert_memories
INSERT INTO memory (seq, {names}) VALUES {values}

-- name: insert_history
INSERT INTO history (org, memory, at, action, changes) VALUES (:org, :memory, :at, :action, :changes)

-- Valid memories first, then the oldest.
-- name: memory_by_text
SELECT {columns} FROM memory m WHERE {where}
ORDER BY m.status IN ('archived', 'superseded') OR coalesce(m.invalid_at <= :now, false), m.created_at, m.id LIMIT 1

-- name: first_by
SELECT {columns} FROM memory m
WHERE {where} ORDER BY {order}, m.id DESC LIMIT :limit OFFSET :offset

-- name: before
SELECT {columns} FROM memory m
WHERE {where} AND (m.at, m.id) < (:at, :id) ORDER BY m.at DESC, m.id DESC LIMIT :limit

-- name: after
SELECT {columns} FROM memory m
WHERE {where} AND (m.at, m.id) > (:at, :id) ORDER BY m.at, m.id LIMIT :limit

-- name: page_by_id
SELECT {columns} FROM memory m
WHERE {where} AND m.id > :after ORDER BY m.id LIMIT :limit

-- name: matching_ids
SELECT m.id FROM memory m WHERE {where} ORDER BY m.id

-- name: ids_with_tail
SELECT m.id FROM memory m WHERE m.org = :org AND m.tail >= :first AND m.tail <= :last AND {where} ORDER BY m.tail, m.id LIMIT :limit

-- name: ended_at
SELECT m.id FROM memory m WHERE {where} AND m.invalid_at = :at ORDER BY m.id

-- name: relations_of
SELECT r.source, r.target, r.kind, r.strength, r.created_at FROM relation r
WHERE r.org = :org AND (r.source = :id OR r.target = :id)
    AND (SELECT true FROM memory m WHERE m.org = :org AND m.id = r.source AND {where})
    AND (SELECT true FROM memory o WHERE o.org = :org AND o.id = r.target AND {where_target})
ORDER BY r.source, r.target, r.kind

-- name: relations_inside
SELECT count(*) FROM relation r
WHERE r.org = :org
    AND (SELECT true FROM memory m WHERE m.org = :org AND m.id = r.source AND {where})
    AND (SELECT true FROM memory o WHERE o.org = :org AND o.id = r.target AND {where_target})

-- name: history_of
SELECT memory, at, action, changes FROM history WHERE org = :org AND memory = :memory ORDER BY seq

-- name: changed_memories
SELECT {columns}, m.seq FROM memory m
WHERE m.org = :org AND m.updated_at > :since AND m.revision > 1 AND {where} ORDER BY m.at, m.id

-- name: history_of_changed
SELECT h.memory, h.at, h.action, h.changes FROM memory m JOIN history h ON h.org = :org AND h.memory = m.id
WHERE m.org = :org AND m.updated_at > :since AND m.revision > 1 AND {where} AND h.action NOT IN ('relate', 'unrelate') ORDER BY h.memory, h.seq

-- name: related_since
SELECT count(*) FROM (SELECT 1 FROM relation WHERE org = :org AND created_at > :since LIMIT 1) later

-- In the same words as the partial index.
-- name: unrelated_since
SELECT memory, at, action, changes FROM history WHERE org = :org AND action = 'unrelate' AND at > :since ORDER BY seq

-- name: delete_relation
DELETE FROM relation WHERE org = :org AND source = :source AND target = :target AND kind = :kind

-- name: drop_relation
DELETE FROM relation
WHERE org = :org AND source = :source AND target = :target AND kind = :kind AND created_at <= :until

-- name: clear_history
DELETE FROM history WHERE org = :org AND memory = :memory

-- name: count_by
SELECT m.{column}, count(*) FROM memory m WHERE {where} GROUP BY 1 ORDER BY 2 DESC, 1

-- name: seqs_between
SELECT m.seq FROM memory m
WHERE {where} AND m.at >= :start AND m.at < :stop ORDER BY m.at DESC, m.id DESC LIMIT :limit

-- Pages of the rows of one org, in an order that is the same in every store.
-- name: id_page
SELECT m.seq, m.id FROM memory m WHERE {where} AND m.id > :after ORDER BY m.id LIMIT :limit

-- name: history_page
SELECT memory, seq, at, action, changes FROM history
WHERE org = :org AND (memory, seq) > (:memory, :seq) ORDER BY memory, seq LIMIT :limit

-- name: relation_page
SELECT source, target, kind, strength, created_at FROM relation
WHERE org = :org AND (source, target, kind) > (:source, :target, :kind) ORDER BY source, target, kind LIMIT :limit

-- name: erase_memories
DELETE FROM memory WHERE org = :org

-- name: session_by_name
SELECT {columns_of} FROM session m WHERE {where} AND m.name = :name ORDER BY m.updated_at DESC, m.id DESC

-- name: session_list
SELECT {columns_of} FROM session m WHERE {where} ORDER BY m.updated_at DESC, m.id DESC LIMIT :limit

-- name: session_by_id
SELECT {columns_of} FROM session WHERE org = :org AND id = :id

-- name: session_update
UPDATE session SET {assignments} WHERE org = :org AND id = :id

-- name: session_delete
DELETE FROM session WHERE org = :org AND id = :id

-- name: entry_insert
INSERT INTO entry (org, session, {columns_of}) VALUES ({marks})

-- name: entries_results
SELECT {columns_of} FROM entry WHERE org = :org AND session = :session AND role = 'result' ORDER BY seq DESC LIMIT :limit

-- name: entry_by_handle
SELECT session, {columns_of} FROM entry WHERE org = :org AND handle = :handle

-- name: content_touch
UPDATE content SET used_at = :used_at WHERE org = :org AND hash = :hash

-- name: content_insert
INSERT INTO content (org, hash, used_at, bytes, codec, data) VALUES (:org, :hash, :used_at, :bytes, :codec, :data)

-- name: content_get
SELECT hash, codec, data FROM content WHERE org = :org AND hash = :hash

-- {needed}: pinned contents, and contents of a context other than tool results, which are stored nowhere else.
-- name: content_expire
DELETE FROM content WHERE org = :org AND used_at < :before AND NOT {needed}

-- name: content_oldest
SELECT hash, bytes FROM content WHERE org = :org AND NOT {needed} ORDER BY used_at

-- name: content_delete
DELETE FROM content WHERE org = :org AND hash = :hash

-- name: turn_end
INSERT INTO turn (org, session, number, at, system, history, tool_results, user_message, evicted)
VALUES (:org, :session, :number, :at, :system, :history, :tool_results, :user_message, :evicted) ON CONFLICT (org, session, number) DO UPDATE SET
at = excluded.at, system = excluded.system, history = excluded.history, tool_results = excluded.tool_results,
user_message = excluded.user_message, evicted = excluded.evicted

-- name: turn_list
SELECT number, at, system, history, tool_results, user_message, evicted FROM turn
WHERE org = :org AND session = :session ORDER BY number

-- name: session_page
SELECT {columns_of} FROM session WHERE org = :org AND id > :id ORDER BY id LIMIT :limit

-- name: entry_page
SELECT {columns_of} FROM entry WHERE org = :org AND session = :session AND seq > :seq ORDER BY seq LIMIT :limit

-- name: content_page
SELECT hash, used_at, bytes, codec, data FROM content WHERE org = :org AND hash > :hash ORDER BY hash LIMIT :limit

-- name: erase_sessions
DELETE FROM session WHERE org = :org

-- name: erase_contents
DELETE FROM content WHERE org = :org

-- Named statements about the books of sessions.

-- name: session_insert
INSERT INTO session ({columns_of}) VALUES ({marks}) ON CONFLICT (org, project, user, agent, name) DO NOTHING

-- name: session_exact
SELECT {columns_of} FROM session
WHERE org = ? AND project = ? AND user = ? AND agent = ? AND name = ?

-- name: session_by_name
SELECT {columns_of} FROM session m WHERE {where} AND m.name = ? ORDER BY m.updated_at DESC, m.id DESC

-- name: session_list
SELECT {columns_of} FROM session m WHERE {where} ORDER BY m.updated_at DESC, m.id DESC LIMIT ?

-- name: session_by_id
SELECT {columns_of} FROM session WHERE org = ? AND id = ?

-- name: session_update
UPDATE session SET {assignments} WHERE org = ? AND id = ?

-- name: session_delete
DELETE FROM session WHERE org = ? AND id = ?

-- name: entry_insert
INSERT INTO entry (org, session, {columns_of}) VALUES ({marks})

-- name: entry_update
UPDATE entry SET {assignments} WHERE org = ? AND session = ? AND seq IN (SELECT value FROM json_each(?))

-- Of a long session most entries have left; without a word SQLite would read them all, as they are in order.
-- name: entries_held
SELECT {columns_of} FROM entry INDEXED BY entry_held WHERE org = ? AND session = ? AND level <> 'gone' ORDER BY seq

-- name: entries_held_in
SELECT {columns_of} FROM entry INDEXED BY entry_held WHERE org = ? AND session = ? AND category = ? AND level <> 'gone' ORDER BY seq

-- name: entry_last_of_call
SELECT {columns_of} FROM entry INDEXED BY entry_call
WHERE org = ? AND session = ? AND call_id = ? AND call_id <> '' ORDER BY seq DESC LIMIT 1

-- name: entries_results
SELECT {columns_of} FROM entry WHERE org = ? AND session = ? AND role = 'result' ORDER BY seq DESC LIMIT ?

-- name: entry_by_handle
SELECT session, {columns_of} FROM entry WHERE org = ? AND handle = ?

-- name: content_touch
UPDATE content SET used_at = ? WHERE org = ? AND hash = ?

-- name: content_insert
INSERT INTO content (org, hash, used_at, bytes, codec, data) VALUES (?, ?, ?, ?, ?, ?)

-- name: content_get
SELECT hash, codec, data FROM content WHERE org = ? AND hash = ?

-- What a context holds beside results has nowhere else to be, and what is pinned is meant to stay.
-- name: content_expire
DELETE FROM content WHERE org = ? AND used_at < ? AND NOT {needed}

-- name: content_total
SELECT coalesce(sum(bytes), 0) FROM content WHERE org = ?

-- name: content_oldest
SELECT hash, bytes FROM content WHERE org = ? AND NOT {needed} ORDER BY used_at

-- name: content_delete
DELETE FROM content WHERE org = ? AND hash = ?

-- name: content_unshared
DELETE FROM content WHERE org = ?1 AND hash IN (SELECT content FROM entry WHERE org = ?1 AND session = ?2)
AND hash NOT IN (SELECT content FROM entry WHERE org = ?1 AND session <> ?2)

-- name: turn_end
INSERT INTO turn (org, session, number, at, system, history, tool_results, user_message, evicted)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (org, session, number) DO UPDATE SET
at = excluded.at, system = excluded.system, history = excluded.history, tool_results = excluded.tool_results,
user_message = excluded.user_message, evicted = excluded.evicted

-- name: turn_list
SELECT number, at, system, history, tool_results, user_message, evicted FROM turn
WHERE org = ? AND session = ? ORDER BY number

-- name: session_page
SELECT {columns_of} FROM session WHERE org = ? AND id > ? ORDER BY id LIMIT ?

-- name: entry_page
SELECT {columns_of} FROM entry WHERE org = ? AND session = ? AND seq > ? ORDER BY seq LIMIT ?

-- name: content_page
SELECT hash, used_at, bytes, codec, data FROM content WHERE org = ? AND hash > ? ORDER BY hash LIMIT ?

-- name: content_bring
INSERT INTO content (org, hash, used_at, bytes, codec, data) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (org, hash) DO UPDATE SET used_at = max(used_at, excluded.used_at)

-- name: erase_sessions
DELETE FROM session WHERE org = ?

-- name: erase_contents
DELETE FROM content WHERE org = ?

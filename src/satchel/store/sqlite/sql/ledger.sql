-- Named statements about agent sessions and their ledgers.

-- name: session_insert
INSERT INTO session ({columns_of}) VALUES ({marks}) ON CONFLICT (org, project, user, agent, name) DO NOTHING

-- name: session_exact
SELECT {columns_of} FROM session
WHERE org = :org AND project = :project AND user = :user AND agent = :agent AND name = :name

-- name: entry_update
UPDATE entry SET {assignments} WHERE org = :org AND session = :session AND seq IN (SELECT value FROM json_each(:seqs))

-- Most entries of a long session are gone. Without INDEXED BY, SQLite would read all of them in order.
-- name: entries_held
SELECT {columns_of} FROM entry INDEXED BY entry_held WHERE org = :org AND session = :session AND level <> 'gone' ORDER BY seq

-- name: entries_held_in
SELECT {columns_of} FROM entry INDEXED BY entry_held WHERE org = :org AND session = :session AND category = :category AND level <> 'gone' ORDER BY seq

-- name: entry_last_of_call
SELECT {columns_of} FROM entry INDEXED BY entry_call
WHERE org = :org AND session = :session AND call_id = :call_id AND call_id <> '' ORDER BY seq DESC LIMIT 1

-- name: content_total
SELECT coalesce(sum(bytes), 0) FROM content WHERE org = :org

-- name: content_bring
INSERT INTO content (org, hash, used_at, bytes, codec, data) VALUES (:org, :hash, :used_at, :bytes, :codec, :data)
ON CONFLICT (org, hash) DO UPDATE SET used_at = max(used_at, excluded.used_at)

-- name: content_unshared
DELETE FROM content WHERE org = :org AND hash IN (SELECT content FROM entry WHERE org = :org AND session = :session)
AND hash NOT IN (SELECT content FROM entry WHERE org = :org AND session <> :session)

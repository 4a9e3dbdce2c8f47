-- Named statements about the books of sessions.

-- name: session_insert
INSERT INTO session ({columns_of}) VALUES ({marks}) ON CONFLICT DO NOTHING

-- name: session_exact
SELECT {columns_of} FROM session
WHERE org = ?1 AND name_key = md5(md5(?2) || md5(?3) || md5(?4) || md5(?5))

-- name: entry_update
UPDATE entry SET {assignments} WHERE org = ? AND session = ? AND seq IN (SELECT value::bigint FROM json_array_elements_text(?::json))

-- name: entries_held
SELECT {columns_of} FROM entry WHERE org = ? AND session = ? AND level <> 'gone' ORDER BY seq

-- name: entries_held_in
SELECT {columns_of} FROM entry WHERE org = ? AND session = ? AND category = ? AND level <> 'gone' ORDER BY seq

-- name: entry_last_of_call
SELECT {columns_of} FROM entry
WHERE org = ? AND session = ? AND call_key = md5(?) AND call_key <> '' ORDER BY seq DESC LIMIT 1

-- name: content_total
SELECT coalesce(sum(bytes), 0)::bigint FROM content WHERE org = ?

-- name: content_bring
INSERT INTO content (org, hash, used_at, bytes, codec, data) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (org, hash) DO UPDATE SET used_at = greatest(content.used_at, excluded.used_at)

-- name: content_unshared
DELETE FROM content WHERE org = ?1
    AND hash = ANY (ARRAY(SELECT e.content FROM entry e WHERE e.org = ?1 AND e.session = ?2))
    AND (
        SELECT 1 FROM entry e WHERE e.org = content.org AND e.content = content.hash AND e.session <> ?2 LIMIT 1
    ) IS NULL

-- Named statements about agent sessions and their ledgers.

-- name: session_insert
INSERT INTO session ({columns_of}) VALUES ({marks}) ON CONFLICT DO NOTHING

-- name: session_exact
SELECT {columns_of} FROM session
WHERE org = :org AND name_key = md5(md5(:project) || md5(:user) || md5(:agent) || md5(:name))

-- name: entry_update
UPDATE entry SET {assignments} WHERE org = :org AND session = :session AND seq IN (SELECT value::bigint FROM json_array_elements_text(:seqs::json))

-- name: entries_held
SELECT {columns_of} FROM entry WHERE org = :org AND session = :session AND level <> 'gone' ORDER BY seq

-- name: entries_held_in
SELECT {columns_of} FROM entry WHERE org = :org AND session = :session AND category = :category AND level <> 'gone' ORDER BY seq

-- name: entry_last_of_call
SELECT {columns_of} FROM entry
WHERE org = :org AND session = :session AND call_key = md5(:call_id) AND call_key <> '' ORDER BY seq DESC LIMIT 1

-- name: content_total
SELECT coalesce(sum(bytes), 0)::bigint FROM content WHERE org = :org

-- name: content_bring
INSERT INTO content (org, hash, used_at, bytes, codec, data) VALUES (:org, :hash, :used_at, :bytes, :codec, :data)
ON CONFLICT (org, hash) DO UPDATE SET used_at = greatest(content.used_at, excluded.used_at)

-- name: content_unshared
DELETE FROM content WHERE org = :org
    AND hash = ANY (ARRAY(SELECT e.content FROM entry e WHERE e.org = :org AND e.session = :session))
    AND (
        SELECT 1 FROM entry e WHERE e.org = :org AND e.content = content.hash AND e.session <> :session LIMIT 1
    ) IS NULL

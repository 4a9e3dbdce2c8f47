-- A text that is added again confirms the memory that holds it: how often, and when last.
-- text_key is the hash of the scope and the text, as store/sql/text_key.py makes it; NULL for turns of a conversation,
-- which are never merged.
ALTER TABLE memory
    ADD COLUMN confirmations bigint NOT NULL DEFAULT 0,
    ADD COLUMN confirmed_at bigint,
    ADD COLUMN text_key bigint GENERATED ALWAYS AS (
        CASE WHEN tier <> 'conversation' THEN
            ('x' || substr(md5(md5(project) || md5("user") || md5(agent) || md5(session) || text), 1, 16))::bit(64)::bigint
        END
    ) STORED;
-- With ref: a memory with a ref of its own is only looked for among those without one.
CREATE INDEX memory_text_key ON memory (org, text_key, ref) WHERE text_key IS NOT NULL;

-- A text that is added again confirms the memory that holds it: how often, and when last.
ALTER TABLE memory ADD COLUMN confirmations INTEGER NOT NULL DEFAULT 0;
ALTER TABLE memory ADD COLUMN confirmed_at INTEGER;
-- Hash of the scope and the text (store/sql/text_key.py); NULL for turns of a conversation, which are never merged.
ALTER TABLE memory ADD COLUMN text_key INTEGER;
-- With ref: a memory with a ref of its own is only looked for among those without one.
CREATE INDEX memory_text_key ON memory (text_key, ref) WHERE text_key IS NOT NULL;

-- Which memories have changed, in order. Processes keep in memory what a search reads, and bring it up to date from here.
-- Triggers write it, so that no code path can forget a change. The mark is random: with it a process recognises that the
-- file was replaced, or that a transaction with the same number was rolled back.
CREATE TABLE change (
    number INTEGER PRIMARY KEY,
    memory INTEGER NOT NULL,
    mark   INTEGER NOT NULL DEFAULT (random())
) STRICT;
INSERT INTO change (memory) VALUES (0);

CREATE TRIGGER memory_added AFTER INSERT ON memory BEGIN
    INSERT INTO change (memory) VALUES (new.seq);
END;
CREATE TRIGGER memory_changed AFTER UPDATE ON memory BEGIN
    INSERT INTO change (memory) VALUES (new.seq);
END;
CREATE TRIGGER memory_removed AFTER DELETE ON memory BEGIN
    INSERT INTO change (memory) VALUES (old.seq);
END;
CREATE TRIGGER memory_used AFTER INSERT ON usage BEGIN
    INSERT INTO change (memory) VALUES (new.seq);
END;
CREATE TRIGGER memory_used_again AFTER UPDATE ON usage BEGIN
    INSERT INTO change (memory) VALUES (new.seq);
END;
-- A memory without its vectors is in the backlog, and leaves it when they are made.
CREATE TRIGGER memory_waits AFTER INSERT ON backlog BEGIN
    INSERT INTO change (memory) VALUES (new.memory);
END;
CREATE TRIGGER memory_embedded AFTER DELETE ON backlog BEGIN
    INSERT INTO change (memory) VALUES (old.memory);
END;

-- Whoever is further behind reads everything again.
CREATE TRIGGER change_trimmed AFTER INSERT ON change WHEN new.number % 4096 = 0 BEGIN
    DELETE FROM change WHERE number <= new.number - 16384;
END;

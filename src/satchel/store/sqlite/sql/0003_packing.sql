-- What a context brings without being asked: what is pinned, and what matters most.
CREATE INDEX memory_pinned ON memory (org, at, id) WHERE pinned = 1;
CREATE INDEX memory_important ON memory (org, at, id) WHERE importance > 0.7;

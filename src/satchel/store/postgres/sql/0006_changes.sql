-- Which memories have changed, in order, for each tenant: one row for each write. Processes keep in memory what a search
-- reads, and bring it up to date from here. The mark is random: with it a process recognises that the tenant was erased
-- or the server restored.
CREATE TABLE change (
    org      text COLLATE "C" NOT NULL,
    number   bigint NOT NULL,
    mark     bigint NOT NULL DEFAULT (random() * 9e18)::bigint,
    memories bigint[] NOT NULL,
    PRIMARY KEY (org, number)
);
ALTER TABLE tenant ADD COLUMN changes bigint NOT NULL DEFAULT 0;

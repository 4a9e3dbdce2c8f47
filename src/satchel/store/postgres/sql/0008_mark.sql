-- Every transaction that writes for a tenant sets a random mark. A replica that shows the mark of the primary shows
-- the same state of this tenant, also after a failover that has lost writes.
ALTER TABLE tenant ADD COLUMN mark bigint NOT NULL DEFAULT 0;

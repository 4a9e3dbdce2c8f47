-- The tenant is an argument, so that Citus sends a call to the node of that tenant. It must be the tenant that the
-- transaction is bound to. Compared without a collation of its own, because Citus expects the very same value.
DROP FUNCTION matching(tsquery);
CREATE FUNCTION matching(tenant text, query tsquery) RETURNS bigint[]
LANGUAGE sql STABLE SECURITY DEFINER
AS $$
    SELECT array_agg(m.seq) FROM memory m
    WHERE m.org = tenant AND tenant = nullif(current_setting('satchel.org', true), '') AND m.words @@ query
$$;

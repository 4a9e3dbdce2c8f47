-- Who may do what, for every table of a tenant: brought up to date after each migration, and by `satchel db init`.
-- The owner of the tables is not bound (no FORCE ROW LEVEL SECURITY): as the owner matching() uses an index for @@,
-- and foreign keys are checked. So a store never acts as the owner.
DO $$
DECLARE
    found record;
    -- A setting that was local to an earlier transaction is '' afterwards, and not unset.
    bound constant text := 'org = nullif(current_setting(''satchel.org'', true), '''')';
BEGIN
    FOR found IN
        SELECT c.oid, c.relname AS name, c.relrowsecurity AS secured, a.attstattarget AS statistics FROM pg_class c
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'org' AND NOT a.attisdropped
        WHERE c.relnamespace = '{schema}'::regnamespace AND c.relkind IN ('r', 'p')
    LOOP
        IF NOT found.secured THEN
            EXECUTE format('ALTER TABLE {schema}.%I ENABLE ROW LEVEL SECURITY', found.name);
        END IF;
        IF NOT EXISTS (SELECT 1 FROM pg_policy WHERE polrelid = found.oid AND polname = 'tenant') THEN
            EXECUTE format('CREATE POLICY tenant ON {schema}.%I USING (%s) WITH CHECK (%s)', found.name, bound, bound);
        END IF;
        -- Statistics know the large tenants, and take any other for a single row, whose tables are then read whole to
        -- find one. Without them each is taken for a part of the table.
        IF found.statistics IS DISTINCT FROM 0 THEN
            EXECUTE format('ALTER TABLE {schema}.%I ALTER COLUMN org SET STATISTICS 0', found.name);
        END IF;
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.%I TO {role}', found.name);
    END LOOP;
END $$;
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT SELECT ON {schema}.migration TO {role};
ALTER FUNCTION {schema}.matching(text, tsquery) SET search_path = pg_catalog, {schema}, pg_temp;
REVOKE ALL ON FUNCTION {schema}.matching(text, tsquery) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION {schema}.matching(text, tsquery) TO {role};

-- Who may do what, for every table of a tenant: brought up to date after each migration.
DO $$
DECLARE
    found record;
BEGIN
    FOR found IN
        SELECT c.relname AS name FROM pg_class c
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'org' AND a.attnum > 0
        WHERE c.relnamespace = '{schema}'::regnamespace AND c.relkind IN ('r', 'p')
    LOOP
        EXECUTE format('ALTER TABLE {schema}.%I ENABLE ROW LEVEL SECURITY', found.name);
        IF NOT EXISTS (
            SELECT 1 FROM pg_policies
            WHERE schemaname = '{schema}' AND tablename = found.name AND policyname = 'tenant'
        ) THEN
            EXECUTE format(
                'CREATE POLICY tenant ON {schema}.%I USING (org = current_setting(''satchel.org'', true)) '
                'WITH CHECK (org = current_setting(''satchel.org'', true))', found.name
            );
        END IF;
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.%I TO {role}', found.name);
    END LOOP;
END $$;
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT SELECT ON {schema}.migration TO {role};
ALTER FUNCTION {schema}.matching(tsquery) SET search_path = {schema}, pg_catalog, pg_temp;
REVOKE ALL ON FUNCTION {schema}.matching(tsquery) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION {schema}.matching(tsquery) TO {role};

-- A hypertable to try programs on: two days of measurements of three machines, up to now. PostgreSQL reads this in single-user
-- mode, where an empty line after a semicolon ends a statement: there is one statement here.
DO $sample$ BEGIN
IF EXISTS (SELECT FROM _timescaledb_catalog.hypertable) OR EXISTS (SELECT FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r') THEN
    RETURN;
END IF;
SET LOCAL ROLE mcp_owner;
SET LOCAL search_path = public;
CREATE TABLE metrics (
    timestamp timestamptz NOT NULL,
    name text NOT NULL,
    value double precision NOT NULL
);
PERFORM create_hypertable('metrics', by_range('timestamp', interval '1 day'));
COMMENT ON TABLE metrics IS 'Sample: a measurement every ten minutes of each of three machines.';
INSERT INTO metrics (timestamp, name, value)
    SELECT date_trunc('minute', now()) - n * interval '10 minutes', machine, round((90 + 25 * sin(n / 9.0 + phase))::numeric, 2)
    FROM generate_series(0, 287) AS n, (VALUES ('pump', 0.0), ('press', 2.1), ('furnace', 4.2)) AS machines (machine, phase);
END $sample$;

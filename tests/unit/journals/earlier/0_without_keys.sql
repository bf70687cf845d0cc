-- Calls as a document, before versions were counted and before idempotency keys.
CREATE TABLE executions (
    sequence     INTEGER PRIMARY KEY AUTOINCREMENT,
    id           TEXT NOT NULL UNIQUE,
    caller       TEXT NOT NULL,
    role         TEXT NOT NULL,
    state        TEXT NOT NULL,
    accepted_at  REAL NOT NULL,
    language     TEXT,
    code_sha256  TEXT,
    code_bytes   INTEGER,
    finished_at  REAL,
    outcome      TEXT,
    exit_code    INTEGER,
    signal       INTEGER,
    error_code   TEXT,
    detail       TEXT,
    stdout_bytes INTEGER NOT NULL DEFAULT 0,
    stderr_bytes INTEGER NOT NULL DEFAULT 0,
    limits       TEXT,
    timings      TEXT,
    usage        TEXT,
    tool_calls   TEXT
) STRICT;
CREATE INDEX executions_by_caller ON executions (caller, sequence);
CREATE INDEX executions_open ON executions (state) WHERE state IN ('queued', 'running');
CREATE TABLE outputs (
    execution_id TEXT NOT NULL REFERENCES executions (id) ON DELETE CASCADE,
    stream       TEXT NOT NULL,
    data         BLOB NOT NULL,
    PRIMARY KEY (execution_id, stream)
) STRICT, WITHOUT ROWID;
INSERT INTO executions (id, caller, role, state, accepted_at, language, code_sha256, code_bytes, finished_at, outcome, exit_code, signal, error_code, detail, stdout_bytes, stderr_bytes, limits, timings, usage, tool_calls) VALUES
    ('finished', 'key-a', 'admin', 'finished', 100.5, 'python', 'abc', 12, 103.5, 'failed', 3, NULL, NULL, NULL, 4, 0,
        '{"timeout_seconds": 5, "max_output_bytes": 102400, "memory_bytes": 1073741824, "cpus": 1.0, "max_processes": 256, "workspace_bytes": 524288000, "scratch_bytes": 104857600}',
        '{"queue_seconds": 0.1, "start_seconds": 0.2, "run_seconds": 0.3}', '{"cpu_seconds": 0.5, "max_memory_bytes": 1024}', '[{"server": "postgres", "tool": "query", "outcome": "done", "started_ms": 1.5, "duration_ms": 2.0, "request_bytes": 30, "result_bytes": 4, "detail": null}]'),
    ('refused', 'key-b', 'developer', 'refused', 101.0, NULL, NULL, NULL, 101.0, NULL, NULL, NULL, 'queue_full',
        'full', 0, 0, NULL, NULL, NULL, NULL),
    ('running', 'key-a', 'admin', 'running', 102.0, 'typescript', 'def', 7, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0,
        '{"timeout_seconds": 5, "max_output_bytes": 102400, "memory_bytes": 1073741824, "cpus": 1.0, "max_processes": 256, "workspace_bytes": 524288000, "scratch_bytes": 104857600}',
        NULL, NULL, NULL);
INSERT INTO outputs VALUES ('finished', 'stdout', CAST('out' || char(10) AS BLOB));

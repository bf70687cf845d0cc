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
    tool_calls   TEXT,
    idempotency_key TEXT
) STRICT;
CREATE INDEX executions_by_caller ON executions (caller, sequence);
CREATE INDEX executions_open ON executions (state) WHERE state IN ('queued', 'running');
CREATE UNIQUE INDEX executions_by_key ON executions (caller, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE TABLE outputs (
    execution_id TEXT NOT NULL REFERENCES executions (id) ON DELETE CASCADE,
    stream       TEXT NOT NULL,
    data         BLOB NOT NULL,
    PRIMARY KEY (execution_id, stream)
) STRICT, WITHOUT ROWID;

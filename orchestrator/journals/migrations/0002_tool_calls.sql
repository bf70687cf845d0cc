-- Calls in rows of their own, so that each can be written while its program runs.
CREATE TABLE tool_calls (
    execution_id  TEXT NOT NULL REFERENCES executions (id) ON DELETE CASCADE,
    number        INTEGER NOT NULL,
    server        TEXT NOT NULL,
    tool          TEXT NOT NULL,
    outcome       TEXT NOT NULL,
    started_ms    REAL NOT NULL,
    duration_ms   REAL NOT NULL,
    request_bytes INTEGER NOT NULL,
    result_bytes  INTEGER NOT NULL,
    detail        TEXT,
    PRIMARY KEY (execution_id, number)
) STRICT, WITHOUT ROWID;
INSERT INTO tool_calls
SELECT executions.id, call.key, call.value ->> 'server', call.value ->> 'tool', call.value ->> 'outcome',
    CAST(call.value ->> 'started_ms' AS REAL), CAST(call.value ->> 'duration_ms' AS REAL),
    call.value ->> 'request_bytes', call.value ->> 'result_bytes', call.value ->> 'detail'
FROM executions, json_each(executions.tool_calls) AS call WHERE executions.tool_calls IS NOT NULL;
ALTER TABLE executions DROP COLUMN tool_calls;

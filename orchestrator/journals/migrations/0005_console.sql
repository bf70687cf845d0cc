-- The programs themselves, where they are kept, apart from the records: they are large, and go earlier.
CREATE TABLE programs (
    execution_id TEXT NOT NULL PRIMARY KEY REFERENCES executions (id) ON DELETE CASCADE,
    code         TEXT NOT NULL
) STRICT;
-- What is searched for a piece of text: the beginnings of the program and of what it printed, in lower case. Bytes, because
-- SQLite finds them in a third of the time.
CREATE TABLE texts (
    sequence INTEGER PRIMARY KEY REFERENCES executions (sequence) ON DELETE CASCADE,
    code     BLOB NOT NULL,
    rest     BLOB NOT NULL
) STRICT;
-- Of earlier executions the programs are not known; of what they printed, this is as much as is searched of later ones.
INSERT INTO texts
SELECT sequence, x'', CAST(lower(
    id || char(10) || coalesce(document ->> '$.detail', '')
    || char(10) || coalesce((SELECT CAST(substr(data, 1, 500) AS TEXT) FROM outputs WHERE execution_id = id AND stream = 'stdout'), '')
    || char(10) || coalesce((SELECT CAST(substr(data, -500) AS TEXT) FROM outputs WHERE execution_id = id AND stream = 'stderr'), '')
) AS BLOB) FROM executions;
CREATE INDEX executions_by_time ON executions (accepted_at);
-- Who is signed in to the console. Of a token only its hash is kept.
CREATE TABLE sign_ins (
    token_sha256 TEXT NOT NULL PRIMARY KEY,
    key_name     TEXT NOT NULL,
    key_sha256   TEXT NOT NULL,
    role         TEXT NOT NULL,
    expires_at   REAL NOT NULL
) STRICT, WITHOUT ROWID;

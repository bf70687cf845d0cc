-- Whose files there are. Their contents lie beside the journal, each once, named by its hash.
CREATE TABLE files (
    execution_id TEXT NOT NULL REFERENCES executions (id) ON DELETE CASCADE,
    number       INTEGER NOT NULL,
    name         TEXT NOT NULL,
    bytes        INTEGER NOT NULL,
    sha256       TEXT NOT NULL,
    media_type   TEXT NOT NULL,
    caller       TEXT NOT NULL,
    kept_at      REAL NOT NULL,
    PRIMARY KEY (execution_id, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX files_by_caller ON files (caller, kept_at);
CREATE INDEX files_by_age ON files (kept_at);
CREATE TABLE uploads (
    caller      TEXT NOT NULL,
    sha256      TEXT NOT NULL,
    bytes       INTEGER NOT NULL,
    uploaded_at REAL NOT NULL,
    PRIMARY KEY (caller, sha256)
) STRICT, WITHOUT ROWID;
-- `owner` is a key or a role; the version with the greatest sequence is the one in force. Unlike files, versions outlive
-- the execution that made them.
CREATE TABLE workspace_versions (
    sequence     INTEGER PRIMARY KEY AUTOINCREMENT,
    owner        TEXT NOT NULL,
    workspace    TEXT NOT NULL,
    execution_id TEXT NOT NULL,
    caller       TEXT NOT NULL,
    made_at      REAL NOT NULL,
    bytes        INTEGER NOT NULL,
    files        TEXT NOT NULL,
    UNIQUE (owner, workspace, execution_id)
) STRICT;

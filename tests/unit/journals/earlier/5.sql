-- Kept programs, what is searched, and who is signed in.
CREATE TABLE executions (
    sequence     INTEGER PRIMARY KEY AUTOINCREMENT,
    id           TEXT NOT NULL UNIQUE,
    caller       TEXT NOT NULL,
    role         TEXT NOT NULL,
    state        TEXT NOT NULL,
    accepted_at  REAL NOT NULL,
    language     TEXT,
    finished_at  REAL,
    outcome      TEXT,
    idempotency_key TEXT
, kind TEXT NOT NULL DEFAULT 'program', instance TEXT NOT NULL DEFAULT '', document TEXT NOT NULL DEFAULT '{}') STRICT;
INSERT INTO "executions" VALUES(1,'finished','key-a','admin','finished',100.5,'python',103.5,'failed','once','program','','{"code_sha256":"abc","code_bytes":12,"exit_code":3,"stdout_bytes":4,"stderr_bytes":0,"limits":{"timeout_seconds":5,"max_output_bytes":102400,"memory_bytes":1073741824,"cpus":1.0,"max_processes":256,"workspace_bytes":524288000,"scratch_bytes":104857600},"timings":{"queue_seconds":0.1,"start_seconds":0.2,"run_seconds":0.3},"usage":{"cpu_seconds":0.5,"max_memory_bytes":1024}}');
INSERT INTO "executions" VALUES(2,'refused','key-b','developer','refused',101.0,NULL,101.0,NULL,NULL,'program','','{"error_code":"queue_full","detail":"full","stdout_bytes":0,"stderr_bytes":0}');
INSERT INTO "executions" VALUES(3,'running','key-a','admin','running',102.0,'typescript',NULL,NULL,NULL,'program','','{"code_sha256":"def","code_bytes":7,"stdout_bytes":0,"stderr_bytes":0,"limits":{"timeout_seconds":5,"max_output_bytes":102400,"memory_bytes":1073741824,"cpus":1.0,"max_processes":256,"workspace_bytes":524288000,"scratch_bytes":104857600}}');
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
INSERT INTO "files" VALUES('finished',0,'report.csv',12,'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','text/csv','key-a',103.5);
CREATE TABLE outputs (
    execution_id TEXT NOT NULL REFERENCES executions (id) ON DELETE CASCADE,
    stream       TEXT NOT NULL,
    data         BLOB NOT NULL,
    PRIMARY KEY (execution_id, stream)
) STRICT, WITHOUT ROWID;
INSERT INTO "outputs" VALUES('finished','stdout',X'6F75740A');
CREATE TABLE programs (
    execution_id TEXT NOT NULL PRIMARY KEY REFERENCES executions (id) ON DELETE CASCADE,
    code         TEXT NOT NULL
) STRICT;
INSERT INTO "programs" VALUES('finished','import sys; sys.exit(3)');
CREATE TABLE sign_ins (
    token_sha256 TEXT NOT NULL PRIMARY KEY,
    key_name     TEXT NOT NULL,
    key_sha256   TEXT NOT NULL,
    role         TEXT NOT NULL,
    expires_at   REAL NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "sign_ins" VALUES('bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb','key-a','cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc','admin',200.0);
CREATE TABLE texts (
    sequence INTEGER PRIMARY KEY REFERENCES executions (sequence) ON DELETE CASCADE,
    code     BLOB NOT NULL,
    rest     BLOB NOT NULL
) STRICT;
INSERT INTO "texts" VALUES(1,X'696D706F7274207379733B207379732E65786974283329',X'66696E69736865640A0A6F75740A0A');
INSERT INTO "texts" VALUES(2,X'',X'726566757365640A66756C6C0A0A');
INSERT INTO "texts" VALUES(3,X'',X'72756E6E696E670A0A0A');
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
INSERT INTO "tool_calls" VALUES('finished',0,'postgres','query','done',1.5,2.0,30,4,NULL);
CREATE TABLE uploads (
    caller      TEXT NOT NULL,
    sha256      TEXT NOT NULL,
    bytes       INTEGER NOT NULL,
    uploaded_at REAL NOT NULL,
    PRIMARY KEY (caller, sha256)
) STRICT, WITHOUT ROWID;
INSERT INTO "uploads" VALUES('key-a','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',12,99.0);
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
INSERT INTO "workspace_versions" VALUES(1,'key-a','shop','finished','key-a',103.5,12,'[{"name":"report.csv","bytes":12,"sha256":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","media_type":"text/csv"}]');
CREATE TABLE writable (at REAL) STRICT;
CREATE INDEX executions_by_caller ON executions (caller, sequence);
CREATE INDEX executions_open ON executions (state) WHERE state IN ('queued', 'running');
CREATE UNIQUE INDEX executions_by_key ON executions (caller, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX files_by_caller ON files (caller, kept_at);
CREATE INDEX files_by_age ON files (kept_at);
CREATE INDEX executions_by_time ON executions (accepted_at);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('executions',3);
INSERT INTO "sqlite_sequence" VALUES('workspace_versions',1);
PRAGMA user_version = 5;

-- A version is its content, so it is the same whoever saved it; what became of it is each author's.
CREATE TABLE skills (
    version    TEXT NOT NULL,
    author     TEXT NOT NULL,
    name       TEXT NOT NULL,
    state      TEXT NOT NULL,
    created_at REAL NOT NULL,
    content    TEXT NOT NULL,
    document   TEXT NOT NULL,
    PRIMARY KEY (version, author)
) STRICT;
CREATE INDEX skills_by_name ON skills (name);
-- Apart, as they are large and seldom read. Those of retired versions are deleted.
CREATE TABLE skill_recordings (
    version   TEXT NOT NULL,
    author    TEXT NOT NULL,
    recording BLOB NOT NULL,
    PRIMARY KEY (version, author)
) STRICT;
-- Apart, as they change all the time. A built-in skill is a file; it has its name here instead of a version.
CREATE TABLE skill_uses (
    version      TEXT NOT NULL,
    author       TEXT NOT NULL,
    uses         INTEGER NOT NULL,
    failures     INTEGER NOT NULL,
    last_used_at REAL,
    PRIMARY KEY (version, author)
) STRICT, WITHOUT ROWID;

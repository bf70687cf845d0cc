"""Files that a program looks for in vain: what there is, where it looks, and how the line ends that it is told."""

from __future__ import annotations

MISSING_FILES = [
    ({"in/Data.csv": "x", "in/b/c": "x"}, "in/data.csv", "{}/in has: Data.csv, b/c."),
    ({f"in/{number:02}": "x" for number in range(12)}, "in/a", "08, 09 and 2 more."),
    ({}, "in/data.csv", "{}/in is empty: no `files` were given."),
    ({}, "files/state.db", "{}/files is there only for executions with a `workspace`."),
    ({"files/state.db": "x"}, "files/states.db", "{}/files has: state.db."),
    ({"in/data.csv": "x"}, "data.csv", "There is {}/in/data.csv."),
    ({"files/data.csv": "x"}, "/tmp/data.csv", "There is {}/files/data.csv."),
]

"""Run one query and keep its rows as a CSV file."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

from servers.postgres import execute_sql

OUT = Path("/workspace/out")
DEFAULT_ROWS = 1_000
MAX_ROWS = 10_000
PREVIEW_LINES = 20
PREVIEW_CHARACTERS = 10_000


def run(input: dict[str, Any]) -> dict[str, Any]:
    name = input["name"]
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,60}", name):
        raise ValueError("`name` must have 1 to 60 letters, digits, hyphens and underscores, without `.csv`.")
    limit = input.get("limit", DEFAULT_ROWS)
    if not 1 <= limit <= MAX_ROWS:
        raise ValueError(f"`limit` must be between 1 and {MAX_ROWS}.")

    # One row more than wanted tells whether there are others.
    found = rows_of(f"select * from (\n{one_query(input['sql'])}\n) as query limit {limit + 1}")
    rows = found[:limit]
    columns = list(rows[0]) if rows else []
    lines = [csv_line(columns)] if rows else []
    lines += [csv_line([as_text(row[column]) for column in columns]) for row in rows]

    file = OUT / f"{name}.csv"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(lines), encoding="utf-8", newline="")
    return {
        "columns": columns,
        "rows": len(rows),
        "csv": "".join(lines[:PREVIEW_LINES])[:PREVIEW_CHARACTERS],
        "file": str(file),
        "note": f"Only the first {limit} rows are in the file; raise `limit` for more." if len(found) > limit else "",
    }


def one_query(sql: str) -> str:
    statement = sql.strip().removesuffix(";")
    if not re.match(r"(select|with)\b", statement, re.IGNORECASE) or ";" in statement:
        raise ValueError(
            "`sql` must be one statement that begins with select or with; only its end may have a semicolon."
        )
    return statement


def rows_of(sql: str) -> list[dict[str, Any]]:
    rows = execute_sql(sql=sql)
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError("`sql` must return values that JSON has; cast NaN and infinite numbers to text.")
    return rows


def csv_line(cells: list[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()


def as_text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)

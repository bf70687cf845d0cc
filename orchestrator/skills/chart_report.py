"""Draw a chart of a query's labels and numbers, and write a Markdown report around it."""

import re
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from servers.postgres import execute_sql

OUT = Path("/workspace/out")
MAX_ROWS = 100
MAX_LABEL_CHARACTERS = 40


def run(input: dict[str, Any]) -> dict[str, Any]:
    name, title, kind = input["name"], " ".join(input["title"].split()), input.get("kind", "bar")
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,60}", name):
        raise ValueError("`name` must have 1 to 60 letters, digits, hyphens and underscores, without an ending.")
    if kind not in ("bar", "line"):
        raise ValueError("`kind` must be bar or line.")

    # One row more than wanted tells whether there are others.
    found = execute_sql(sql=f"select * from (\n{one_query(input['sql'])}\n) as query limit {MAX_ROWS + 1}")
    points = [point(row, input["label"], input["value"]) for row in found[:MAX_ROWS]]
    if not points:
        raise ValueError("`sql` must return at least one row to draw.")
    largest = max(points, key=lambda each: each["value"])
    total = round(sum(each["value"] for each in points), 6)
    note = f"Only the first {MAX_ROWS} rows are shown." if len(found) > MAX_ROWS else ""

    OUT.mkdir(parents=True, exist_ok=True)
    picture, report = OUT / f"{name}.png", OUT / f"{name}.md"
    chart(points, title, kind, input["value"]).savefig(picture, dpi=120)
    summary = f"{len(points)} rows, {total:,} in all. The largest is {largest['label']} with {largest['value']:,}."
    table = [f"| {cell(input['label'])} | {cell(input['value'])} |", "|---|---:|"]
    table += [f"| {cell(each['label'])} | {each['value']:,} |" for each in points]
    parts = [f"# {title}", f"![{title}]({picture.name})", summary, note, "\n".join(table)]
    report.write_text("\n\n".join(part for part in parts if part) + "\n", encoding="utf-8")
    return {
        "title": title,
        "rows": len(points),
        "total": total,
        "largest": largest,
        "files": [str(report), str(picture)],
        "note": note,
    }


def one_query(sql: str) -> str:
    statement = sql.strip().removesuffix(";")
    if not re.match(r"(select|with)\b", statement, re.IGNORECASE) or ";" in statement:
        raise ValueError(
            "`sql` must be one statement that begins with select or with; only its end may have a semicolon."
        )
    return statement


def point(row: Any, label: str, value: str) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise ValueError("`sql` must return values that JSON has, neither NaN nor infinite numbers.")
    if label not in row or value not in row:
        raise ValueError(f"`sql` must return the columns {label} and {value}, as `label` and `value` say.")
    number = row[value]
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ValueError(f"`value` must name a column of numbers without nulls; {value} has {number!r}.")
    return {"label": " ".join(str(row[label]).split()), "value": number}


def chart(points: list[dict[str, Any]], title: str, kind: str, value: str) -> Figure:
    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.subplots()
    places, heights = range(len(points)), [each["value"] for each in points]
    if kind == "bar":
        axes.bar(places, heights)
    else:
        axes.plot(places, heights, marker="o")
    # Without parse_math=False, a dollar sign in a label would begin a formula.
    labels = [each["label"][:MAX_LABEL_CHARACTERS] for each in points]
    axes.set_xticks(places, labels, rotation=45, ha="right", parse_math=False)
    axes.set_ylabel(value, parse_math=False)
    axes.set_title(title, parse_math=False)
    return figure


def cell(text: str) -> str:
    return text.replace("|", "\\|")

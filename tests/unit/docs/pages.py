"""The documents as the tests read them: pages, sections, tables, code."""

from __future__ import annotations

import re
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]
DOCS = PROJECT / "docs"
EVERY_PAGE = [*sorted(PROJECT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]


def page(name: str) -> str:
    return (PROJECT / name).read_text()


def section(text: str, title: str) -> str:
    return text.split(f"\n## {title}\n")[1].split("\n## ")[0]


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


def in_one_line(text: str) -> str:
    return " ".join(text.split())


def code_pieces(text: str) -> list[str]:
    """The lines of the code blocks, and what stands between backticks elsewhere."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines()] + re.findall(r"`([^`\n]+)`", prose)


def words_after(command: str, text: str) -> set[str]:
    pattern = rf"(?:^|[\s/(]){command} ([a-z][a-z-]*)(?![a-z:-])"  # http://… after a name is an address
    return {found for piece in code_pieces(text) for found in re.findall(pattern, piece)}


def blocks_in(language: str, text: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def anchors(text: str) -> set[str]:
    """The anchors of the headings, as the hosts of Markdown make them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE), flags=re.M)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}

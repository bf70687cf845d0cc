"""Makes the table of settings in docs/configuration.md; prints it, or with --write puts it in place."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import AliasChoices
from pydantic.fields import FieldInfo

from orchestrator.settings import MIB, PREFIX, PROJECT, Settings

PAGE = PROJECT / "docs" / "configuration.md"
BEGIN = "<!-- settings: made by scripts/settings_table.py --write -->"
END = "<!-- /settings -->"
HEADER = "| Setting | Default | Allowed | Meaning |\n|---|---|---|---|\n"
BOUND_SIGNS = {"gt": "> ", "ge": "≥ ", "lt": "< ", "le": "≤ "}


def table() -> str:
    defaults = Settings.model_construct()  # reads no environment
    return HEADER + "".join(_row(name, field, getattr(defaults, name)) for name, field in Settings.model_fields.items())


def with_table(document: str) -> str:
    before, _, rest = document.partition(BEGIN)
    _, marker, after = rest.partition(END)
    if not marker:
        raise ValueError(f"the document lacks the markers {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{table()}{END}{after}"


def _row(name: str, field: FieldInfo, default: Any) -> str:
    cells = (_names(name, field), _default(name, default), _allowed(name, field), field.description or "")
    return f"| {' | '.join(cells)} |\n"


def _names(name: str, field: FieldInfo) -> str:
    alias = field.validation_alias
    names = alias.choices if isinstance(alias, AliasChoices) else [f"{PREFIX}{name.upper()}"]
    return " or ".join(f"`{choice}`" for choice in names)


def _default(name: str, value: Any) -> str:
    if value is None:
        return "none"
    return _shown(name, value.relative_to(PROJECT) if _in_project(value) else value)


def _in_project(value: Any) -> bool:
    """Whether to show the path relative to the project: where that is on this machine belongs in no page."""
    return isinstance(value, Path) and value.is_relative_to(PROJECT)


def _allowed(name: str, field: FieldInfo) -> str:
    if get_origin(field.annotation) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(field.annotation))
    return ", ".join(
        f"{sign}{_shown(name, getattr(bound, kind))}"
        for bound in field.metadata
        for kind, sign in BOUND_SIGNS.items()
        if hasattr(bound, kind)
    )


def _shown(name: str, value: Any) -> str:
    if isinstance(value, float):
        return f"`{value:g}`"
    return f"`{value}`{_in_words(value) if name.endswith('_bytes') else ''}"


def _in_words(size: int) -> str:
    return f" ({size // MIB} MiB)" if size % MIB == 0 else f" ({size // 1024} KiB)"


def main(arguments: list[str]) -> None:
    if arguments == ["--write"]:
        PAGE.write_text(with_table(PAGE.read_text()))
    else:
        sys.stdout.write(table())


if __name__ == "__main__":
    main(sys.argv[1:])

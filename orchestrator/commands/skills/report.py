"""What the commands print about skills. Whatever a skill says is shown, never obeyed."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, assert_never
from unicodedata import category

from rich.table import Table
from rich.text import Text

from orchestrator.commands.executions import local_time
from orchestrator.commands.skills.answers import usages_of, version_of
from orchestrator.commands.terminal import Json, err, out, plain, print_table
from orchestrator.domain.chat import printable
from orchestrator.domain.execution import Language
from orchestrator.domain.file_words import count_in_words
from orchestrator.domain.skills import BUILT_IN, SkillState

STYLES = {
    SkillState.DRAFT: "yellow",
    SkillState.PROVEN: "cyan",
    SkillState.APPROVED: "green",
    SkillState.STALE: "red",
    SkillState.RETIRED: "dim",
}
CARRIAGE_RETURN = "␍"
LINE_FEED = "␊"
NO_LINE_FEED = "\\ No newline at the end"  # as diff says it
LANGUAGES = {Language.TYPESCRIPT: "TypeScript", Language.PYTHON: "Python"}
# What is drawn as nothing, or turns text around, or begins a new line.
HIDDEN = ("Cf", "Zl", "Zp")
LEAST_ABOUT = 20  # characters of a description, however narrow the terminal is


def visible(text: str) -> str:
    """Show what a terminal would not: ESC is ␛, a right-to-left override ⟨U+202E⟩; tabs and line feeds stay."""
    characters = printable(text)
    if characters.isascii():
        return characters
    return "".join(f"⟨U+{ord(each):04X}⟩" if category(each) in HIDDEN else each for each in characters)


def shown(text: str, style: str = "") -> Text:
    """Return a text of strangers that is to be on one line."""
    return plain(visible(text).replace("\n", LINE_FEED), style)


def print_message(about: str, message: str, indent: str = "") -> None:
    """Print a text of strangers behind what it is about, or below that, further to the right, if it has many lines."""
    lines = visible(message.strip("\n")).split("\n")
    if len(lines) == 1:
        out.print(plain(f"{indent}{about}{lines[0]}"))
        return
    out.print(plain(f"{indent}{about}".rstrip()))
    for line in lines:
        out.print(plain(f"{indent}  {line}".rstrip()))


def print_skills(found: list[Json]) -> None:
    """Print a row for each; on a terminal, the descriptions take what is left of its width.

    Those who share a name are told apart by their authors.
    """
    named = Counter(each["name"] for each in found)
    has_authors = any(count > 1 for count in named.values())
    columns = ("Name", "State", "Version", *(["Author"] if has_authors else []), "Uses", "Failed", "Description")
    rows = []
    for each in found:
        authors = [each["author"] if named[each["name"]] > 1 else ""] if has_authors else []
        rows.append(
            (each["name"], each["state"], each["version"][:12], *authors, str(each["uses"]), str(each["failures"]))
        )
    taken = sum(max(len(cell) for cell in cells) + 2 for cells in zip(columns[:-1], *rows, strict=True))
    table = Table(*columns, box=None, pad_edge=False)
    for each, (name, state, *others) in zip(found, rows, strict=True):
        about = shown(" ".join(each["description"].split()))
        if out.is_terminal:
            about.truncate(max(LEAST_ABOUT, out.width - taken), overflow="ellipsis")
        table.add_row(plain(name), state_in_colour(state), *(shown(cell) for cell in others), about)
    print_table(out, table)


def print_one(found: Json, others: list[Json]) -> None:
    """Print what is known of a version, all but its code, and which others of its name are not in use."""
    facts = Table("", "", box=None, show_header=False, pad_edge=False)

    def tell(name: str, value: str | Text) -> None:
        facts.add_row(Text(name, "dim"), value if isinstance(value, Text) else shown(value))

    tell("skill", found["name"])
    tell("state", state_in_colour(found["state"]))
    tell("version", found["version"])
    tell("description", " ".join(found["description"].split()))
    tell("language", found["language"])
    is_built_in = found["author"] == BUILT_IN
    tell("author", found["author"] + ("" if is_built_in else f", {local_time(found['createdAt'])}"))
    if found["approvedBy"] is not None and not is_built_in:
        tell("approved by", f"{found['approvedBy']}, {local_time(found['approvedAt'])}")
    if found["approvedVersion"] not in (None, found["version"]):
        tell("approved now", f"another version, {found['approvedVersion']}")
    for other in others:
        if other["version"] != found["version"]:
            what = "waits for approval" if other["state"] == SkillState.PROVEN else f"is a {other['state']}"
            newer = "newer" if other["createdAt"] > found["createdAt"] else "older"
            look = f"code-executor skills show {found['name']} --version {other['version'][:12]}"
            tell(newer, f"a version by {other['author']} {what}: {look}")
    last = f", last {local_time(found['lastUsedAt'])}" if found["lastUsedAt"] is not None else ""
    tell("uses", f"{found['uses']}, of which {found['failures']} failed{last}")
    if (proof := found["proof"]) is not None:
        runs, calls = (count_in_words(count, word) for count, word in _counts(proof))
        proven = "" if is_built_in else f"{local_time(proof['provenAt'])}, "
        tell("proof", f"{proven}{runs}, {calls}")
        for execution in proof["executions"]:
            tell("", f"code-executor show {execution}")
    if found["inferred"]:
        tell("inferred", ", ".join(found["inferred"]))
    print_table(out, facts)
    print_touched(found)
    print_remarks(found)
    _print_lines("Drift: its tools have changed since its proof", found["drift"])
    _heading("Signature")
    out.print(plain(visible(usages_of(version := version_of(found))[version.content.language].signature)))
    print_examples(found)


def print_examples(found: Json) -> None:
    _print_lines("Examples", [json.dumps(example["input"], ensure_ascii=False) for example in found["examples"]])


def print_schemas(found: Json) -> None:
    for title, member in (("Input schema", "input"), ("Output schema", "output")):
        try:
            text = json.dumps(found[member], ensure_ascii=False, indent=2)
        except RecursionError:  # which takes less depth with an indent than without
            text = json.dumps(found[member], ensure_ascii=False)
        print_text(title, text)


def print_code(found: Json) -> None:
    """Print the code, also what a terminal does not show: carriage returns, and whether it ends with a line feed."""
    code = found["code"]
    print_text(f"Code, in {found['language']}", code if code.endswith("\n") else f"{code}\n{NO_LINE_FEED}")


def print_touched(found: Json) -> None:
    """Print every tool that it calls, and what that may do."""
    language = LANGUAGES[Language(found["language"])]
    imported = f"Imported into a {language} program, it may call what the program's role may"
    if not found["touches"]:
        _print_lines("Tools", ["It calls no tools.", f"{imported}; run by name, nothing."])
        return
    _heading("Tools")
    table = Table("", "", box=None, show_header=False, pad_edge=False)
    for each in found["touches"]:
        does = plain("reads") if each["readOnly"] is True else plain("writes or unknown", "yellow")
        table.add_row(plain(each["tool"]), does if each["isThere"] else plain("not available", "red"))
    print_table(out, table)
    out.print(f"{imported}; run by name, nothing else.")


def print_proof(found: Json) -> None:
    """Print what stands behind a skill that somebody is to approve."""
    lines = []
    if (proof := found["proof"]) is not None:
        examples = f"{count_in_words(len(proof['executions']), 'example')} run"
        calls = f"{count_in_words(proof['calls'], 'tool call')} recorded"
        lines.append(f"{examples}, {calls}, {local_time(proof['provenAt'])}")
    if found["inferred"]:
        lines.append(f"Inferred from its code or its proof: {', '.join(found['inferred'])}")
    _print_lines("Proof", lines)


def print_remarks(found: Json) -> None:
    if found["remarks"]:
        _heading("Remarks")
    for each in found["remarks"]:
        print_remark(each)


def print_replayed(ended: Json) -> None:
    about = f"{ended['name']}, version {ended['version']}: "
    print_message(*((about, "does what was recorded") if ended["same"] else (f"{about}differs: ", ended["problem"])))


def print_text(title: str, text: str) -> None:
    """Print a text of many lines under a heading."""
    _heading(title)
    told = visible(text.replace("\r", CARRIAGE_RETURN))
    out.file.write(told.removesuffix("\n") + "\n")  # rich would turn tabs into spaces


def print_saved(saved: Json, *, is_in_use: bool | None) -> None:
    """Say what became of a skill that was saved, what its proof found, and what to do next.

    It is in use if programs of one's own key get this version, which is None where that is not known.
    """
    out.print(plain(f"{saved['name']}: ").append_text(state_in_colour(saved["state"])))
    out.print(plain(f"  version {saved['version']}"))
    for each in saved["remarks"]:
        print_remark(each, "  ")
    for change in saved["drift"]:
        out.print(shown(f"  {change}"))
    if saved["state"] in list(SkillState):
        next_step = _next_step(saved["name"], SkillState(saved["state"]), is_in_use=is_in_use)
        err.print(plain(f"code-executor: {next_step}"))


def _next_step(name: str, state: SkillState, *, is_in_use: bool | None) -> str:
    match state:
        case SkillState.DRAFT:
            return "it is a draft: fix it, and save it again under the same name"
        case SkillState.PROVEN:
            approve = f"'code-executor skills approve {name}'"
            if is_in_use is None:
                return f"others can use it once somebody else has run {approve}"
            if is_in_use:
                return f"you can use it now; others can once somebody else has run {approve}"
            return "you cannot use it now, because a tool that it calls is not there or has changed"
        case SkillState.APPROVED:
            return "this version was approved before and still is"
        case SkillState.STALE:
            return "it is stale: its tools have changed; fix it, and save it again under the same name"
        case SkillState.RETIRED:
            return "it is retired: save it again to use it"
        case _:
            assert_never(state)


def state_in_colour(state: str) -> Text:
    return plain(state, STYLES[SkillState(state)] if state in list(SkillState) else "")


def _counts(proof: Json) -> tuple[tuple[int, str], tuple[int, str]]:
    return (len(proof["executions"]), "live run"), (proof["calls"], "tool call")


def print_remark(remark: Json, indent: str = "") -> None:
    place = f" ({remark['place']})" if remark["place"] else ""
    print_message(shown(f"{remark['kind']}{place}: ").plain, remark["message"], indent)


def _print_lines(title: str, lines: list[Any]) -> None:
    if lines:
        _heading(title)
    for line in lines:
        out.print(shown(line))


def _heading(title: str) -> None:
    out.print(Text(f"\n{title}", "dim"))

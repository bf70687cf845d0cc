"""What the commands print about skills. Whatever a skill says is shown, never obeyed."""

from __future__ import annotations

import json
from typing import Any, assert_never

from rich.table import Table
from rich.text import Text

from orchestrator.commands.executions import local_time
from orchestrator.commands.skills.answers import usages_of, version_of
from orchestrator.commands.terminal import Json, err, out, plain, print_table
from orchestrator.domain.chat import printable
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
NO_LINE_FEED = "\\ No newline at the end"  # as diff says it
LEAST_ABOUT = 20  # characters of a description, however narrow the terminal is


def print_skills(found: list[Json]) -> None:
    """Print a row for each; on a terminal, the descriptions take what is left of its width."""
    columns = ("Name", "State", "Version", "Uses", "Failed", "Description")
    rows = [
        (each["name"], each["state"], each["version"][:12], str(each["uses"]), str(each["failures"])) for each in found
    ]
    taken = sum(max(len(cell) for cell in cells) + 2 for cells in zip(columns[:-1], *rows, strict=True))
    table = Table(*columns, box=None, pad_edge=False)
    for each, (name, state, *others) in zip(found, rows, strict=True):
        about = plain(" ".join(each["description"].split()))
        if out.is_terminal:
            about.truncate(max(LEAST_ABOUT, out.width - taken), overflow="ellipsis")
        table.add_row(plain(name), state_in_colour(state), *(plain(cell) for cell in others), about)
    print_table(out, table)


def print_one(found: Json) -> None:
    """Print what is known of a version, all but its code."""
    facts = Table("", "", box=None, show_header=False, pad_edge=False)

    def tell(name: str, value: str | Text) -> None:
        facts.add_row(Text(name, "dim"), value if isinstance(value, Text) else plain(value))

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
    out.print(plain(usages_of(version := version_of(found))[version.content.language].signature))
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
    if not found["touches"]:
        _print_lines("Tools", ["It calls no tools."])
        return
    _heading("Tools")
    table = Table("", "", box=None, show_header=False, pad_edge=False)
    for each in found["touches"]:
        does = plain("reads") if each["readOnly"] is True else plain("writes or unknown", "yellow")
        table.add_row(plain(each["tool"]), does if each["isThere"] else plain("not available", "red"))
    print_table(out, table)


def print_remarks(found: Json) -> None:
    _print_lines("Remarks", [_remark(each) for each in found["remarks"]])


def print_text(title: str, text: str) -> None:
    """Print a text of many lines under a heading."""
    _heading(title)
    shown = printable(text.replace("\r", CARRIAGE_RETURN))
    out.file.write(shown.removesuffix("\n") + "\n")  # rich would turn tabs into spaces


def print_saved(saved: Json) -> None:
    """Say what became of a skill that was saved, what its proof found, and what to do next."""
    out.print(plain(f"{saved['name']}: ").append_text(state_in_colour(saved["state"])))
    out.print(plain(f"  version {saved['version']}"))
    for each in saved["remarks"]:
        out.print(plain(f"  {_remark(each)}"))
    for change in saved["drift"]:
        out.print(plain(f"  {change}"))
    if saved["state"] in list(SkillState):
        err.print(plain(f"code-executor: {_next_step(saved['name'], SkillState(saved['state']))}"))


def _next_step(name: str, state: SkillState) -> str:
    match state:
        case SkillState.DRAFT:
            return "it is a draft: fix it, and save it again under the same name"
        case SkillState.PROVEN:
            approve = f"'code-executor skills approve {name}'"
            return f"you can use it now; others can once somebody else has run {approve}"
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


def _remark(remark: Json) -> str:
    place = f" ({remark['place']})" if remark["place"] else ""
    return f"{remark['kind']}{place}: {' '.join(remark['message'].split())}"


def _print_lines(title: str, lines: list[Any]) -> None:
    if lines:
        _heading(title)
    for line in lines:
        out.print(plain(line))


def _heading(title: str) -> None:
    out.print(Text(f"\n{title}", "dim"))

"""Has skills saved, which proves them: from a file, from an execution, or from folders that were exported."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.client import ApiClient, CallFailed, Refused
from orchestrator.commands.run import program_in
from orchestrator.commands.skills.answers import PROVING_SECONDS, path_of
from orchestrator.commands.skills.folders import read_folders
from orchestrator.commands.skills.json_words import object_in, object_in_file
from orchestrator.commands.skills.report import print_remark, print_saved, shown, state_in_colour
from orchestrator.commands.terminal import (
    EXIT_BAD_DATA,
    EXIT_BAD_USE,
    AsJson,
    Json,
    api_client,
    call_daemon,
    directory_named,
    err,
    exit_of_refusal,
    fail,
    not_empty,
    out,
    plain,
    print_json,
)
from orchestrator.domain.execution import Check, Language
from orchestrator.domain.skill_folders import ImportedSkill
from orchestrator.domain.skills import SkillState

EXIT_DRAFT = 1
USABLE = (SkillState.PROVEN, SkillState.APPROVED)


def save(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE", callback=not_empty, help="Its code: def run(input), export default function, or a program."
        ),
    ] = None,
    name: Annotated[
        str, typer.Option(metavar="NAME", callback=not_empty, help="Its name, such as weekly_report.")
    ] = ...,  # type: ignore[assignment]
    description: Annotated[str, typer.Option(metavar="TEXT", help="What it does, in one line.")] = ...,  # type: ignore[assignment]
    from_execution: Annotated[
        str | None,
        typer.Option(
            metavar="ID", callback=not_empty, help="Keep the program that this execution ran, instead of a file."
        ),
    ] = None,
    language: Annotated[
        Language | None,
        typer.Option(metavar="LANG", help="typescript or python. Default: by the file's ending or its #! line."),
    ] = None,
    tool: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            help="A tool that it calls, as SERVER/TOOL. Default: what its code imports. May be repeated.",
        ),
    ] = None,
    example: Annotated[
        list[str] | None,
        typer.Option(metavar="JSON", help="An input that works; the proof runs it for real. May be repeated."),
    ] = None,
    input_file: Annotated[
        str | None, typer.Option("--input", metavar="FILE", help="A file with the JSON Schema of what it takes.")
    ] = None,
    output_file: Annotated[
        str | None, typer.Option("--output", metavar="FILE", help="A file with the JSON Schema of what it returns.")
    ] = None,
    check: Annotated[
        Check,
        typer.Option(
            metavar="HOW", help="strict runs nothing that surely fails, warn explains what failed, off does not look."
        ),
    ] = Check.STRICT,
    as_json: AsJson = False,
) -> None:
    """Keep a skill and prove it in a sandbox; exits with 1 if the proof fails, which makes it a draft."""
    if (file is None) == (from_execution is None):
        fail("Name either a file or an execution, with --from-execution ID.", EXIT_BAD_USE)
    body: Json = {"name": name, "description": description}
    if check is not Check.STRICT:
        body["check"] = check.value
    if file is not None:
        code, chosen = program_in(file, language)
        body |= {"code": code, "language": chosen.value}
    else:
        body |= {"fromExecution": from_execution} | ({"language": language.value} if language is not None else {})
    if tool:
        body["tools"] = tool
    if example:
        body["examples"] = [{"input": object_in(text, "--example")} for text in example]
    for member, schema in (("input", input_file), ("output", output_file)):
        if schema is not None:
            body[member] = object_in_file(schema, f"--{member}")
    with err.status("Proving it in a sandbox …"):
        saved = call_daemon(lambda client: client.order("POST", "/skills", body, PROVING_SECONDS))
    if as_json:
        print_json(saved)
    else:
        print_saved(saved, is_in_use=_is_in_use(saved) if saved["state"] == SkillState.PROVEN else None)
    if saved["state"] not in USABLE:
        raise typer.Exit(EXIT_DRAFT)


def _is_in_use(saved: Json) -> bool | None:
    """Tell whether one's programs get this version, if that can be known."""
    about = path_of(saved["name"]), [("version", saved["version"])]
    try:
        found = asyncio.run(api_client().get(*about))
    except CallFailed:  # it is saved in any case
        return None
    return bool(found["versionInUse"] == saved["version"]) if "versionInUse" in found else None


def import_(
    directories: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR", parser=directory_named, help="Folders of skills, or directories with such folders."
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Save skills that `export` wrote; each is proven again here, and needs a new approval."""
    found, problems = read_folders(directories)
    for problem in problems:
        err.print(shown(f"code-executor: {problem.message}"))
    ended = []
    for skill in _in_order(found):
        with err.status(f"Proving {skill.content.name} …"):
            ended.append(call_daemon(lambda client, skill=skill: _import(client, skill)))  # type: ignore[misc]
        if not as_json:
            _tell(skill, ended[-1])
    if as_json:
        left_out = [{"folder": str(problem.folder), "error": problem.message} for problem in problems]
        print_json({"skills": ended, "leftOut": left_out})
    if problems:
        raise typer.Exit(problems[0].exit_code)
    if any(each["state"] not in USABLE for each in ended):
        raise typer.Exit(EXIT_DRAFT)


async def _import(client: ApiClient, skill: ImportedSkill) -> Json:
    """Have a skill saved, unless this very version is in use here: its proof would only run everything again."""
    about = {"name": skill.content.name, "changed": skill.was_changed, "error": None}
    try:
        there = await client.get(path_of(skill.content.name), [("version", skill.version)])
        if there["state"] in USABLE:
            known = {"version": there["version"], "state": there["state"], "remarks": there["remarks"]}
            return {**about, **known, "isNew": False}
    except Refused as refusal:
        if refusal.code != "skill_not_found":
            raise
    document = skill.content.as_document()
    body = {member: value for member, value in document.items() if value or member == "tools"}
    try:
        saved = await client.order("POST", "/skills", body, PROVING_SECONDS)
    except Refused as refusal:
        if exit_of_refusal(refusal.code) not in (EXIT_BAD_USE, EXIT_BAD_DATA):
            raise
        nothing = {"version": skill.version, "state": "refused", "remarks": [], "isNew": False}
        return {**about, **nothing, "error": str(refusal)}
    kept = {"version": saved["version"], "state": saved["state"], "remarks": saved["remarks"]}
    return {**about, **kept, "isNew": True}


def _tell(skill: ImportedSkill, ended: Json) -> None:
    if ended["error"] is not None:
        out.print(plain(f"{ended['name']}: ").append_text(shown(f"refused: {ended['error']}", "red")))
        return
    there = "" if ended["isNew"] else ", already here"
    out.print(plain(f"{ended['name']}: ").append_text(state_in_colour(ended["state"])).append(there))
    if skill.was_changed:
        out.print(plain(f"  changed after it was exported: a new version, {ended['version']}"))
    elif ended["version"] != skill.version:
        out.print(plain(f"  is another version here: {ended['version']}"))
    for remark in ended["remarks"]:
        print_remark(remark, "  ")


def _in_order(skills: Sequence[ImportedSkill]) -> list[ImportedSkill]:
    """Put skills after those that they use."""
    ordered: list[ImportedSkill] = []
    left = list(skills)
    while left:
        waiting = {skill.content.name for skill in left}
        # Those that use one another in a circle are left to the daemon, which refuses them.
        ready = [skill for skill in left if not waiting & set(skill.content.uses)] or left
        ordered += ready
        left = [skill for skill in left if skill not in ready]
    return ordered

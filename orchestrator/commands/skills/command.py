"""The commands themselves: what there is, what one is, and what becomes of it."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from orchestrator.commands.files import ordered
from orchestrator.commands.skills.answers import PROVING_SECONDS, asked, others_of, path_of
from orchestrator.commands.skills.folders import export
from orchestrator.commands.skills.report import (
    print_code,
    print_examples,
    print_one,
    print_proof,
    print_remarks,
    print_replayed,
    print_schemas,
    print_skills,
    print_text,
    print_touched,
    shown,
)
from orchestrator.commands.skills.running import run
from orchestrator.commands.skills.saving import import_, save
from orchestrator.commands.terminal import (
    EXIT_BAD_USE,
    EXIT_NOT_ALLOWED,
    AsJson,
    Json,
    ask_daemon,
    call_daemon,
    err,
    exit_of_refusal,
    fail,
    not_empty,
    out,
    plain,
    print_json,
)
from orchestrator.domain.skills import BUILT_IN, SkillState

EXIT_DIFFERS = 1

Name = Annotated[str, typer.Argument(metavar="NAME", callback=not_empty, help="The skill's name.")]
Version = Annotated[
    str | None,
    typer.Option(metavar="VERSION", callback=not_empty, help="Default: the version that you would use."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

skills_app = typer.Typer(help="List, show, save, run, approve, retire, replay, export and import skills.")


@skills_app.callback(invoke_without_command=True)
def skills(context: typer.Context, as_json: AsJson = False) -> None:
    """List the skills that you may use, that you saved or that wait for your approval; the commands below do more."""
    if context.invoked_subcommand is None:
        list_skills(as_json)


@skills_app.command("list")
def list_skills(as_json: AsJson = False) -> None:
    """List the skills that you may use, that you saved or that wait for your approval."""
    found = ask_daemon("/skills")
    if as_json:
        print_json(found)
        return
    if found["skills"]:
        print_skills(found["skills"])
    else:
        err.print("There are no skills. `code-executor skills save FILE --name NAME --description TEXT` keeps one.")
    for suggestion in found["suggestions"]:
        err.print(shown(f"code-executor: consider retiring {suggestion}"))


def show(
    name: Name,
    version: Version = None,
    code: Annotated[bool, typer.Option("--code", help="Show its code, too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a skill: what it takes and returns, which tools it touches, its proof and what was noticed about it."""
    found = asked(name, version)
    if as_json:
        print_json(found)
        return
    print_one(found, others_of(found["name"]))
    if code:
        print_code(found)


def approve(
    name: Name,
    version: Annotated[
        str | None,
        typer.Argument(metavar="VERSION", callback=not_empty, help="Default: the newest one that waits for approval."),
    ] = None,
    yes: Yes = False,
) -> None:
    """Approve a version for every role that may call what it calls, after showing all of it and what changed."""
    found = asked(name, version if version is not None else _waiting(name))
    said = f"{found['name']}, version {found['version']}"
    if found["state"] == SkillState.APPROVED:
        err.print(plain(f"code-executor: {said}, was already approved by {found['approvedBy']}"))
        return
    if found["state"] != SkillState.PROVEN:
        mend = f"'code-executor skills show {name} --version {found['version']}' tells why."
        only = "only what is proven can be approved"
        fail(
            f"{said}, is {'a draft' if found['state'] == SkillState.DRAFT else found['state']}: {only}. {mend}",
            exit_of_refusal("skill_not_proven"),
        )
    if (refused := _no_approval(found)) is not None:
        fail(refused, EXIT_NOT_ALLOWED)
    out.print(shown(f"{said}, by {found['author']}"))
    out.print(shown(" ".join(found["description"].split())))
    print_touched(found)
    print_proof(found)
    print_remarks(found)
    # Models of others read all of this, so whoever approves it has to see it.
    print_schemas(found)
    print_examples(found)
    print_code(found)
    if found["approvedVersion"] is not None:
        print_text(f"Difference from {found['approvedVersion'][:12]}, which is approved now", found["difference"])
    if not yes:
        typer.confirm("\nApprove it?", abort=True, err=True)
    approved = ordered("POST", f"{path_of(name)}/approve", {"version": found["version"]})
    err.print(plain(f"code-executor: approved {approved['name']}, version {approved['version']}"))


def retire(name: Name, version: Version = None, yes: Yes = False) -> None:
    """Take a version out of use: one of your own, or anybody's if your role approves skills."""
    found = asked(name, version)
    said = f"{found['name']}, version {found['version']} ({found['state']}, by {found['author']})"
    if found["state"] == SkillState.RETIRED:
        err.print(plain(f"code-executor: {said}, is already retired"))
        return
    if found["author"] == BUILT_IN:
        fail(f"{found['name']} is built in. Deny it to a role with skills/{found['name']} in tools.deny.", EXIT_BAD_USE)
    if (refused := _no_retirement(found)) is not None:
        fail(refused, EXIT_NOT_ALLOWED)
    for user in _users_of(found):
        err.print(plain(f"code-executor: {user} uses it and will become stale"))
    if not yes:
        typer.confirm(plain(f"Retire {said}?").plain, abort=True, err=True)
    retired = ordered("DELETE", f"{path_of(name)}?version={quote(found['version'], safe='')}")
    err.print(plain(f"code-executor: retired {retired['name']}, version {retired['version']}"))


def replay(name: Name, version: Version = None, as_json: AsJson = False) -> None:
    """Run a skill against the recording of its proof, without calling a tool; exits with 1 if it differs."""
    body: Json = {} if version is None else {"version": version}
    with err.status("Replaying it in a sandbox …"):
        ended = call_daemon(lambda client: client.order("POST", f"{path_of(name)}/replay", body, PROVING_SECONDS))
    if as_json:
        print_json(ended)
    else:
        print_replayed(ended)
    if not ended["same"]:
        raise typer.Exit(EXIT_DIFFERS)


def _no_approval(found: Json) -> str | None:
    """Say why the daemon would refuse an approval, as far as that can be known before the question."""
    who = ask_daemon("/whoami")
    if who.get("approvesSkills") is False:
        return f"Role {who['role']} must not approve skills: it lacks approvesSkills."
    return "Whoever saved a skill must not approve it." if who["caller"] == found["author"] else None


def _no_retirement(found: Json) -> str | None:
    who = ask_daemon("/whoami")
    approves = who.get("approvesSkills", True) and found["state"] != SkillState.DRAFT
    if approves or who["caller"] == found["author"]:
        return None
    return f"Only {found['author']}, or a role that approves skills, may retire {found['name']}."


def _waiting(name: str) -> str | None:
    """Return the newest version of a skill that waits for approval, if one does."""
    return next((each["version"] for each in others_of(name) if each["state"] == SkillState.PROVEN), None)


def _users_of(found: Json) -> list[str]:
    """Name the approved skills that use this one, if it is what they use."""
    if found["state"] not in (SkillState.APPROVED, SkillState.STALE):
        return []
    listed = ask_daemon("/skills")["skills"]
    path = f"skills/{found['name']}"
    return [each["name"] for each in listed if each["state"] == SkillState.APPROVED and path in each["tools"]]


for command in (show, save, run, approve, retire, replay, export):
    skills_app.command()(command)
skills_app.command("import")(import_)

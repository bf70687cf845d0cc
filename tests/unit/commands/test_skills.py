"""`code-executor skills` on a daemon that answers as it is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from click.testing import Result
from rich.console import Console
from typer.testing import CliRunner

import orchestrator
from orchestrator.adapters.skill_library import read_library
from orchestrator.commands.cli import app
from orchestrator.commands.skills import report
from orchestrator.commands.skills.folders import MAX_DESCRIPTION_FILE_BYTES
from orchestrator.domain.execution import Language
from orchestrator.domain.skills import MAX_CODE_BYTES, SkillContent
from tests.support.fake_api import QuietHandler, serving

AGENTSKILLS = Path(sys.executable).with_name("agentskills")  # of the package skills-ref
BUILT_IN = [skill.content for skill in read_library(Path(orchestrator.__file__).parent / "skills").skills]
AT = "2026-11-16T09:30:00.000Z"
GREET = SkillContent(
    name="greet_all",
    description="Greets somebody.",
    language=Language.PYTHON,
    code="from servers.chat import say\r\n\r\ndef run(input):\n    return {'said': say(text=input['who'])}\n",
    input={"type": "object", "properties": {"who": {"type": "string"}, "times": {"type": "integer"}}},
    output={"type": "object", "properties": {"said": {"type": "string"}}},
    tools=("chat/say",),
    examples=({"who": "Ada"},),
)
ODDLY_DESCRIBED = replace(GREET, name="oddly", description='It\'s: a #test --- with "signs" & <more>, é → ☃')
NOT_FOUND = {"detail": "There is no skill.", "hint": "Look.", "code": "skill_not_found"}
RESULT = {
    "executionId": "e1",
    "outcome": "completed",
    "exitCode": 0,
    "truncated": False,
    "mistakes": [],
    "images": [],
    "files": [],
}


def detail(content: SkillContent = GREET, state: str = "approved", **more: Any) -> dict[str, Any]:
    """A version as GET /skills/{name} tells it."""
    approved = {"approvedBy": "admin", "approvedAt": AT} if state == "approved" else {}
    return {
        **content.as_document(),
        "version": content.version,
        "state": state,
        "author": "developer",
        "createdAt": AT,
        "approvedBy": None,
        "approvedAt": None,
        **approved,
        "uses": 7,
        "failures": 2,
        "lastUsedAt": AT,
        "drift": [],
        "remarks": [],
        "inferred": [],
        "proof": {"provenAt": AT, "calls": 1, "executions": ["e7"], "digests": {}},
        "touches": [{"tool": path, "readOnly": None, "isThere": True} for path in content.tools],
        "approvedVersion": content.version if state == "approved" else None,
        "versionInUse": content.version if state == "approved" else None,
        "difference": "",
        **more,
    }


class Daemon:
    """Has skills, newest first, and does with them as it is told; what it refuses, it refuses by the path."""

    def __init__(self) -> None:
        self.skills: list[dict[str, Any]] = []
        self.suggestions: list[str] = []
        self.who: dict[str, Any] = {"caller": "admin", "role": "admin", "approvesSkills": True}
        self.saved_as = "proven"
        self.in_use: str | None = None  # instead of what is saved
        self.remarks: list[dict[str, Any]] = []
        self.refusals: dict[str, tuple[int, dict[str, Any]]] = {}
        self.result: dict[str, Any] = RESULT
        self.replayed: dict[str, Any] = {"same": True, "problem": None}
        self.asked: list[str] = []
        self.orders: list[Any] = []

    def command(self, *arguments: str, **options: Any) -> Result:
        return CliRunner().invoke(app, ["skills", *arguments], **options)

    def find(self, name: str, version: str | None) -> dict[str, Any] | None:
        fitting = (each for each in self.skills if each["name"] == name and version in (None, each["version"]))
        return next(fitting, None)

    def save(self, body: dict[str, Any]) -> dict[str, Any]:
        content = SkillContent.from_document(
            {"language": "python", "code": "", "input": {}, "output": {}, "tools": [], "examples": [], **body}
        )
        in_use = self.in_use or content.version
        saved = detail(content, self.saved_as, remarks=self.remarks, versionInUse=in_use)
        self.skills.insert(0, saved)
        return saved


class Handler(QuietHandler):
    fake: Daemon

    def do_GET(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self.fake.orders.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self._serve()

    def _serve(self) -> None:
        asked = f"{self.command} {self.path}"
        self.fake.asked.append(asked)
        url = urlsplit(self.path)
        _, name, action = (*url.path.strip("/").split("/"), "", "")[:3]
        if asked in self.fake.refusals:
            self.answer(*self.fake.refusals[asked])
        elif url.path == "/whoami":
            self.answer(200, self.fake.who)
        elif self.command == "POST" and not name:
            self.answer(201, self.fake.save(self.fake.orders[-1]))
        elif not name:
            self.answer(200, {"skills": self.fake.skills, "suggestions": self.fake.suggestions})
        elif (found := self.fake.find(name, parse_qs(url.query).get("version", [None])[0])) is None:
            self.answer(404, NOT_FOUND)
        elif action == "run":
            self._stream({"text": "done\n"})
        elif action == "replay":
            self.answer(200, {"name": name, "version": found["version"], **self.fake.replayed})
        else:
            self.answer(200, {**found, **(self.fake.orders[-1] if action else {})})

    def _stream(self, printed: dict[str, str]) -> None:
        result = json.dumps(self.fake.result)
        events = f"event: stdout\ndata: {json.dumps(printed)}\n\nevent: result\ndata: {result}\n\n".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(events)))
        self.end_headers()
        self.wfile.write(events)


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    fake = Daemon()
    with serving(type("OfThisTest", (Handler,), {"fake": fake}), monkeypatch):
        yield fake


class TestEmptyArguments:
    """What a variable that is not set leaves would otherwise mean the newest version, or this directory."""

    SAVED = ("--name", "greet_all", "--description", "Greets.")

    @pytest.mark.parametrize(
        "given",
        [
            ("approve", "greet_all", "", "--yes"),
            ("approve", "greet_all", " ", "--yes"),
            ("approve", "", "--yes"),
            ("retire", "greet_all", "--version", "", "--yes"),
            ("retire", "", "--yes"),
            ("show", "greet_all", "--version", ""),
            ("show", ""),
            ("replay", "greet_all", "--version", ""),
            ("replay", ""),
            ("run", ""),
            ("export", ""),
            ("export", "somewhere", ""),
            ("import", ""),
            ("save", "", *SAVED),
            ("save", "--from-execution", "", *SAVED),
            ("save", "greet.py", "--name", "", "--description", "Greets."),
        ],
    )
    def test_they_are_refused_before_anything_is_asked(self, daemon: Daemon, given: tuple[str, ...]) -> None:
        daemon.skills = [detail(state="proven")]
        ended = daemon.command(*given)
        assert (ended.exit_code, ended.stdout, daemon.asked, daemon.orders) == (64, "", [], [])
        assert "must not be empty" in ended.stderr


class TestList:
    def test_skills_are_a_table_and_suggestions_are_beside_it(self, daemon: Daemon) -> None:
        daemon.skills, daemon.suggestions = [detail()], ["greet_all: nobody has used it for 99 days."]
        ended = daemon.command()
        head, row = ended.stdout.splitlines()
        assert head.split() == ["Name", "State", "Version", "Uses", "Failed", "Description"]
        assert row.split() == ["greet_all", "approved", GREET.version[:12], "7", "2", "Greets", "somebody."]
        assert ended.stderr == "code-executor: consider retiring greet_all: nobody has used it for 99 days.\n"

    def test_those_who_share_a_name_are_told_apart_by_their_authors(self, daemon: Daemon) -> None:
        other = detail(replace(GREET, name="greet_more"))
        daemon.skills = [detail(author="ada"), detail(replace(GREET, code=""), "proven", author="bob"), other]
        head, *rows = [line.split() for line in daemon.command().stdout.splitlines()]
        assert head == ["Name", "State", "Version", "Author", "Uses", "Failed", "Description"]
        assert [row[3] for row in rows] == ["ada", "bob", "7"]

    def test_lines_end_with_what_they_say_where_nobody_sees_their_width(self, daemon: Daemon) -> None:
        daemon.skills = [detail(), detail(replace(GREET, name="greet_more", description="A longer description."))]
        lines = daemon.command().stdout.split("\n")
        assert lines == [line.rstrip() for line in lines]
        assert lines[1].endswith("Greets somebody.")

    def test_on_a_terminal_the_description_is_cut(
        self, daemon: Daemon, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(report, "out", Console(force_terminal=True, width=80, soft_wrap=True, color_system=None))
        report.print_skills([detail(description="word " * 60)])
        lines = capsys.readouterr().out.splitlines()
        assert {len(line) for line in lines} == {80}
        assert lines[1].endswith("…")

    def test_an_address_that_is_none_is_a_matter_of_configuration(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CODE_EXECUTOR_KEY", "key")
        monkeypatch.setenv("CODE_EXECUTOR_URL", "ftp://x")
        ended = CliRunner().invoke(app, ["skills"])
        assert (ended.exit_code, ended.stdout) == (78, "")
        assert "must be an http:// or https:// address" in ended.stderr

    def test_without_any_it_says_how_to_keep_one(self, daemon: Daemon) -> None:
        ended = daemon.command()
        assert (ended.exit_code, ended.stdout) == (0, "")
        assert "code-executor skills save FILE" in ended.stderr

    def test_json_is_the_answer_itself(self, daemon: Daemon) -> None:
        daemon.skills = [detail()]
        assert json.loads(daemon.command("--json").stdout) == {"skills": [detail()], "suggestions": []}

    def test_a_control_character_of_a_stranger_is_shown_not_obeyed(self, daemon: Daemon) -> None:
        daemon.skills = [detail(description="a\x1b[2Jb")]
        assert "a␛[2Jb" in daemon.command().stdout


class TestShow:
    def test_everything_that_is_known_is_shown(self, daemon: Daemon) -> None:
        touches = [
            {"tool": "chat/say", "readOnly": False, "isThere": True},
            {"tool": "chat/ask", "readOnly": None, "isThere": True},
            {"tool": "chat/look", "readOnly": True, "isThere": True},
            {"tool": "chat/gone", "readOnly": None, "isThere": False},
        ]
        remark = {"kind": "secret", "message": "It looks like a key.", "place": "code:1:2"}
        daemon.skills = [
            detail(touches=touches, remarks=[remark], drift=["`chat/say` lost `text`."], inferred=["input", "output"])
        ]
        shown = daemon.command("show", "greet_all").stdout
        facts = {line.split("  ")[0]: " ".join(line.split()) for line in shown.splitlines()}
        assert facts["state"] == "state approved"
        assert facts["version"] == f"version {GREET.version}"
        assert facts["approved by"].startswith("approved by admin, 2026-11-16")
        assert facts["proof"].endswith("1 live run, 1 tool call")
        assert facts["inferred"] == "inferred input, output"
        assert facts["chat/say"] == "chat/say writes or unknown"
        assert facts["chat/ask"] == "chat/ask writes or unknown"
        assert facts["chat/look"] == "chat/look reads"
        assert facts["chat/gone"] == "chat/gone not available"
        for line in ("secret (code:1:2): It looks like a key.", "`chat/say` lost `text`.", '{"who": "Ada"}'):
            assert line in shown.splitlines()
        assert 'greet_all(*, who: str = ..., times: int = ...) -> {"said"?: str}' in shown
        assert "def run(input)" not in shown

    def test_a_version_that_waits_is_told_with_how_to_look_at_it(self, daemon: Daemon) -> None:
        newer = replace(GREET, code="def run(input): ...")
        older = replace(GREET, code="x")
        daemon.skills = [
            detail(),
            detail(newer, "proven", author="colleague", createdAt="2026-11-17T09:30:00.000Z"),
            detail(older, "draft", createdAt="2026-11-15T09:30:00.000Z"),
            detail(replace(newer, name="greet_more"), "proven"),
        ]
        shown = [" ".join(line.split()) for line in daemon.command("show", "greet_all").stdout.splitlines()]
        look = "code-executor skills show greet_all --version"
        assert f"newer a version by colleague waits for approval: {look} {newer.version[:12]}" in shown
        assert f"older a version by developer is a draft: {look} {older.version[:12]}" in shown
        assert not any("greet_more" in line for line in shown)
        of_the_newer = daemon.command("show", "greet_all", "--version", newer.version).stdout
        assert "waits for approval" not in of_the_newer

    def test_changes_of_tools_stay_on_their_line_and_show_what_is_hidden(self, daemon: Daemon) -> None:
        daemon.skills = [detail(state="stale", drift=["`chat/say` lost `te\nxt\u2066`."])]
        shown = daemon.command("show", "greet_all").stdout
        assert "`chat/say` lost `te␊xt⟨U+2066⟩`." in shown.splitlines()

    def test_what_it_may_call_depends_on_how_it_is_used(self, daemon: Daemon) -> None:
        imported = "Imported into a Python program, it may call what the program's role may; run by name, nothing"
        daemon.skills = [detail()]
        assert f"{imported} else." in daemon.command("show", "greet_all").stdout.splitlines()
        daemon.skills = [detail(replace(GREET, tools=()))]
        shown = daemon.command("show", "greet_all").stdout
        assert f"It calls no tools.\n{imported}.\n" in shown

    def test_the_code_is_shown_on_request(self, daemon: Daemon) -> None:
        daemon.skills = [detail()]
        assert daemon.command("show", "greet_all", "--code").stdout.endswith(
            "    return {'said': say(text=input['who'])}\n"
        )

    def test_a_version_is_asked_for_by_its_name(self, daemon: Daemon) -> None:
        daemon.skills = [detail()]
        daemon.command("show", "greet_all", "--version", GREET.version, "--json")
        assert daemon.asked == [f"GET /skills/greet_all?version={GREET.version}"]

    def test_one_that_is_not_there_has_the_exit_code_of_that(self, daemon: Daemon) -> None:
        assert daemon.command("show", "nothing").exit_code == 66

    @pytest.mark.parametrize("command", ["show", "approve", "retire"])
    def test_content_that_its_version_does_not_vouch_for_is_not_shown(self, daemon: Daemon, command: str) -> None:
        daemon.skills = [detail(state="proven", code="def run(input): ...")]
        ended = daemon.command(command, "greet_all", input="y\n")
        assert (ended.exit_code, ended.stdout, daemon.orders) == (69, "", [])
        assert "did not arrive as it was kept" in ended.stderr


class TestSave:
    ABOUT = ("--name", "greet_all", "--description", "Greets.")

    def test_a_file_is_sent_with_what_the_options_say(self, daemon: Daemon, tmp_path: Path) -> None:
        (tmp_path / "greet.ts").write_text("export default () => ({});")
        (tmp_path / "in.json").write_text('{"type": "object"}')
        ended = daemon.command(
            *("save", str(tmp_path / "greet.ts"), *self.ABOUT, "--tool", "chat/say", "--tool", "chat/ask"),
            *("--example", '{"who": "Ada"}', "--example", "{}", "--input", str(tmp_path / "in.json")),
        )
        assert (ended.exit_code, ended.stdout.splitlines()[0]) == (0, "greet_all: proven")
        assert daemon.orders == [
            {
                "name": "greet_all",
                "description": "Greets.",
                "code": "export default () => ({});",
                "language": "typescript",
                "tools": ["chat/say", "chat/ask"],
                "examples": [{"input": {"who": "Ada"}}, {"input": {}}],
                "input": {"type": "object"},
            }
        ]

    def test_the_program_of_an_execution_is_kept_instead_of_a_file(self, daemon: Daemon) -> None:
        assert daemon.command("save", "--from-execution", "e1", *self.ABOUT).exit_code == 0
        assert daemon.orders == [{"name": "greet_all", "description": "Greets.", "fromExecution": "e1"}]

    @pytest.mark.parametrize("given", [(), ("greet.py", "--from-execution", "e1")])
    def test_it_is_a_file_or_an_execution(self, daemon: Daemon, given: tuple[str, ...]) -> None:
        ended = daemon.command("save", *given, *self.ABOUT)
        assert (ended.exit_code, daemon.orders) == (64, [])

    def test_its_options_are_told_whole_on_a_narrow_terminal(
        self, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "60")
        told = daemon.command("save", "--help").stdout
        assert "…" not in told
        for option in ("--from-execution", "--description", "--language", "--check"):
            assert f" {option} " in told

    def test_a_draft_exits_with_1_and_says_why(self, daemon: Daemon) -> None:
        daemon.saved_as = "draft"
        daemon.remarks = [{"kind": "failed", "message": "KeyError:\n'who'", "place": "examples[0]"}]
        ended = daemon.command("save", "--from-execution", "e1", *self.ABOUT)
        assert ended.exit_code == 1
        assert "  failed (examples[0]):\n    KeyError:\n    'who'\n" in ended.stdout
        assert "it is a draft: fix it, and save it again" in ended.stderr

    @pytest.mark.parametrize(
        ("state", "exit_code", "told"),
        [
            ("proven", 0, "others can once somebody else has run 'code-executor skills approve greet_all'"),
            ("approved", 0, "this version was approved before and still is"),
            ("stale", 1, "it is stale: its tools have changed; fix it"),
            ("retired", 1, "it is retired: save it again to use it"),
        ],
    )
    def test_each_state_is_told_with_what_to_do_next(
        self, daemon: Daemon, state: str, exit_code: int, told: str
    ) -> None:
        daemon.saved_as = state
        ended = daemon.command("save", "--from-execution", "e1", *self.ABOUT)
        assert (ended.exit_code, ended.stdout.splitlines()[0]) == (exit_code, f"greet_all: {state}")
        assert told in ended.stderr
        assert "draft" not in ended.stderr

    def test_what_ones_programs_do_not_get_is_not_said_to_be_in_use(self, daemon: Daemon) -> None:
        given = ("save", "--from-execution", "e1", *self.ABOUT)
        assert "you can use it now" in daemon.command(*given).stderr
        daemon.in_use = "f" * 64
        told = daemon.command(*given).stderr
        assert "you cannot use it now, because a tool that it calls is not there or has changed" in told
        assert "you can use it now" not in told

    def test_what_is_saved_is_told_also_if_nothing_answers_any_more(self, daemon: Daemon) -> None:
        content = SkillContent.from_document(
            {"language": "python", "code": "", "input": {}, "output": {}, "tools": [], "examples": []}
            | {"name": "greet_all", "description": "Greets.", "fromExecution": "e1"}
        )
        daemon.refusals[f"GET /skills/greet_all?version={content.version}"] = (404, NOT_FOUND)
        ended = daemon.command("save", "--from-execution", "e1", *self.ABOUT)
        assert (ended.exit_code, ended.stdout.splitlines()[0]) == (0, "greet_all: proven")
        assert "others can use it once" in ended.stderr
        assert "now" not in ended.stderr

    def test_a_traceback_is_printed_line_by_line_and_shows_what_is_hidden(self, daemon: Daemon) -> None:
        daemon.saved_as = "draft"
        message = 'Traceback:\n  File "a"\n\n\x1b[2JKeyError: \u2066\u202eb\u2028c'
        daemon.remarks = [{"kind": "failed", "message": message, "place": "examples[0]"}]
        told = daemon.command("save", "--from-execution", "e1", *self.ABOUT).stdout
        lines = (
            "failed (examples[0]):",
            "  Traceback:",
            '    File "a"',
            "",
            "  ␛[2JKeyError: ⟨U+2066⟩⟨U+202E⟩b⟨U+2028⟩c",
        )
        assert told.endswith("".join(f"  {line}".rstrip() + "\n" for line in lines))
        daemon.who["caller"] = "developer"
        assert "".join(f"{line}\n" for line in lines) in daemon.command("show", "greet_all").stdout

    def test_a_state_that_this_command_does_not_know_is_told_alone(self, daemon: Daemon) -> None:
        daemon.saved_as = "resting"
        ended = daemon.command("save", "--from-execution", "e1", *self.ABOUT)
        assert (ended.exit_code, ended.stdout.splitlines()[0], ended.stderr) == (1, "greet_all: resting", "")

    @pytest.mark.parametrize("example", ["[1]", "{", '{"a": NaN}'])
    def test_an_example_that_is_no_object_is_not_sent(self, daemon: Daemon, example: str) -> None:
        ended = daemon.command("save", "--from-execution", "e1", *self.ABOUT, "--example", example)
        assert (ended.exit_code, daemon.orders) == (64, [])
        assert ended.stderr.startswith("code-executor: --example must be a JSON object")

    def test_a_schema_that_cannot_be_read_is_named(self, daemon: Daemon, tmp_path: Path) -> None:
        ended = daemon.command("save", "--from-execution", "e1", *self.ABOUT, "--output", str(tmp_path / "no.json"))
        assert (ended.exit_code, daemon.orders) == (66, [])
        assert "no.json of --output cannot be read" in ended.stderr


class TestRun:
    @pytest.fixture(autouse=True)
    def _there(self, daemon: Daemon) -> None:
        daemon.skills = [detail()]

    @pytest.mark.parametrize(
        ("given", "sent"),
        [
            ((), {}),
            (('{"who": "Ada"}',), {"who": "Ada"}),
            (("who=12", "times=12"), {"who": "12", "times": 12}),
            (("who=a=b", "other=[1, 2]", "more=text"), {"who": "a=b", "other": [1, 2], "more": "text"}),
        ],
    )
    def test_the_input_is_json_or_named_values(self, daemon: Daemon, given: tuple[str, ...], sent: Any) -> None:
        ended = daemon.command("run", "greet_all", *given)
        assert (ended.exit_code, ended.stdout, ended.stderr) == (0, "done\n", "")
        assert daemon.orders == [{"input": sent}]

    @pytest.mark.parametrize(
        ("schema", "given", "sent"),
        [
            ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "123", "123"),
            ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "true", "true"),
            ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "[1]", "[1]"),
            ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "null", None),
            ({"anyOf": [{"type": "string"}, {"type": "null"}]}, '"null"', "null"),
            ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "123", 123),
            ({"type": ["string", "null"]}, "123", "123"),
            ({"type": ["string", "null"]}, "null", None),
            ({"type": ["string", "number"]}, "1.5", 1.5),
            ({"$ref": "#/$defs/code"}, "123", "123"),
            ({"enum": ["1", "2"]}, "1", "1"),
            ({"type": "string", "maxLength": 2}, "123", "123"),
            ({"type": "integer"}, "1.5", 1.5),
            ({"type": "object"}, "{}", {}),
            ({}, "123", 123),
            ({}, '"123"', "123"),
            (True, "123", 123),
        ],
    )
    def test_a_value_is_what_the_skill_takes(self, daemon: Daemon, schema: Any, given: str, sent: Any) -> None:
        takes = {
            "type": "object",
            "properties": {"code": schema, "other": {"type": "string"}},
            "required": ["code", "other"],
            "additionalProperties": False,
            "$defs": {"code": {"type": "string"}},
        }
        daemon.skills = [detail(replace(GREET, input=takes))]
        daemon.command("run", "greet_all", f"code={given}")
        assert daemon.orders == [{"input": {"code": sent}}]

    @pytest.mark.parametrize("given", ["NaN", "Infinity", "-Infinity", "[NaN]", "1e999"])
    def test_what_is_no_number_of_json_stays_text_where_text_is_taken(self, daemon: Daemon, given: str) -> None:
        daemon.command("run", "greet_all", f"other={given}")
        assert daemon.orders == [{"input": {"other": given}}]

    @pytest.mark.parametrize(
        ("given", "named"), [("NaN", "NaN"), ("[1, -Infinity]", "-Infinity"), ('{"a": 1e999}', "1e999")]
    )
    def test_elsewhere_it_is_said_to_be_none(self, daemon: Daemon, given: str, named: str) -> None:
        ended = daemon.command("run", "greet_all", f"times={given}")
        assert (ended.exit_code, daemon.orders) == (64, [])
        told = f"times cannot be sent: {named} is not a finite number, which JSON requires."
        assert ended.stderr == f"code-executor: {told}\n"

    def test_a_word_that_begins_as_such_a_number_is_a_word(self, daemon: Daemon) -> None:
        daemon.command("run", "greet_all", "times=NaNcy")
        assert daemon.orders == [{"input": {"times": "NaNcy"}}]

    @pytest.mark.parametrize("seconds", ["nan", "inf", "-inf", "0", "-1"])
    def test_a_time_that_nothing_can_take_is_not_sent(self, daemon: Daemon, seconds: str) -> None:
        ended = daemon.command("run", "greet_all", "--timeout", seconds)
        assert (ended.exit_code, daemon.asked) == (64, [])
        assert "--timeout must be a number of seconds greater than 0." in ended.stderr

    def test_the_input_may_come_from_a_file_or_standard_input(self, daemon: Daemon, tmp_path: Path) -> None:
        (tmp_path / "in.json").write_text('{"who": "Ada"}')
        daemon.command("run", "greet_all", "--input", str(tmp_path / "in.json"), "--timeout", "5")
        daemon.command("run", "greet_all", "--input", "-", input='{"who": "Bob"}')
        assert daemon.orders == [{"input": {"who": "Ada"}, "timeoutSeconds": 5}, {"input": {"who": "Bob"}}]

    @pytest.mark.parametrize("given", [("{}", "a=1"), ("who",), ("=1",), ("who=1", "who=2"), ("{",)])
    def test_another_input_is_not_sent(self, daemon: Daemon, given: tuple[str, ...]) -> None:
        ended = daemon.command("run", "greet_all", *given)
        assert (ended.exit_code, daemon.orders) == (64, [])

    def test_an_input_from_two_places_is_not_sent(self, daemon: Daemon) -> None:
        assert daemon.command("run", "greet_all", "{}", "--input", "-").exit_code == 64

    @pytest.mark.parametrize(
        ("result", "exit_code"),
        [({"outcome": "failed", "exitCode": 3}, 3), ({"outcome": "cancelled", "limits": {}}, 130)],
    )
    def test_the_exit_codes_are_those_of_run(self, daemon: Daemon, result: dict[str, Any], exit_code: int) -> None:
        daemon.result = RESULT | result
        assert daemon.command("run", "greet_all").exit_code == exit_code

    def test_json_is_the_result_alone(self, daemon: Daemon) -> None:
        assert json.loads(daemon.command("run", "greet_all", "--json").stdout) == RESULT

    def test_one_that_is_not_there_has_the_exit_code_of_that(self, daemon: Daemon) -> None:
        assert daemon.command("run", "nothing", "{}").exit_code == 66


class TestApprove:
    OLD = replace(GREET, code="def run(input): ...")

    def test_the_newest_that_waits_is_shown_and_exactly_that_is_approved(self, daemon: Daemon) -> None:
        waiting = detail(state="proven", approvedVersion=self.OLD.version, difference="-old\n+new\n")
        older = detail(replace(GREET, code="x"), "proven", createdAt="2026-11-15T09:30:00.000Z")
        daemon.skills = [detail(self.OLD), older, waiting]
        ended = daemon.command("approve", "greet_all", input="y\n")
        assert ended.exit_code == 0
        assert daemon.orders == [{"version": GREET.version}]
        for shown in ("chat/say  writes or unknown", "def run(input):", "-old\n+new\n", GREET.version):
            assert shown in ended.stdout
        assert ended.stderr.endswith(f"code-executor: approved greet_all, version {GREET.version}\n")

    def test_everything_that_is_approved_is_shown_before_the_question(self, daemon: Daemon) -> None:
        described = {"type": "string", "description": "Whom\x1b to greet.", "default": "Ada"}
        content = replace(GREET, input={"properties": {"who": described}}, output={"title": "What was said."})
        daemon.skills = [detail(content, "proven")]
        shown = daemon.command("approve", "greet_all", input="n\n").stdout
        assert "\nInput schema\n{\n" in shown
        assert '      "description": "Whom\\u001b to greet.",\n      "default": "Ada"\n' in shown
        assert '\nOutput schema\n{\n  "title": "What was said."\n}\n' in shown
        assert '\nExamples\n{"who": "Ada"}\n' in shown
        assert "\nCode, in python\n" in shown

    def test_the_proof_is_shown_before_the_question(self, daemon: Daemon) -> None:
        proof = {"provenAt": AT, "calls": 3, "executions": ["e7", "e8"], "digests": {}}
        remarks = [{"kind": each, "message": "Told.", "place": "code:1:2"} for each in ("check",)]
        daemon.skills = [detail(state="proven", proof=proof, inferred=["input", "tools"], remarks=remarks)]
        shown = daemon.command("approve", "greet_all", input="n\n").stdout
        assert "\nProof\n2 examples run, 3 tool calls recorded, 2026-11-16" in shown
        assert "\nInferred from its code or its proof: input, tools\n" in shown
        assert "\nRemarks\ncheck (code:1:2): Told.\n\n" in shown

    @pytest.mark.parametrize(
        ("who", "told"),
        [
            ({"role": "developer", "approvesSkills": False}, "Role developer must not approve skills"),
            ({"caller": "developer"}, "Whoever saved a skill must not approve it."),
        ],
    )
    def test_whoever_must_not_approve_is_not_asked(self, daemon: Daemon, who: dict[str, Any], told: str) -> None:
        daemon.skills, daemon.who = [detail(state="proven")], daemon.who | who
        ended = daemon.command("approve", "greet_all")
        assert (ended.exit_code, ended.stdout, daemon.orders) == (77, "", [])
        assert told in ended.stderr
        assert "Approve it?" not in ended.stderr

    def test_line_ends_are_shown(self, daemon: Daemon) -> None:
        code = "a = 1\r\n# nothing\rb = 2"
        content = replace(GREET, code=code)
        change = "-a = 1\n+a = 1␍\n\\ No newline at the end\n"
        daemon.skills = [detail(content, "proven", approvedVersion=self.OLD.version, difference=change)]
        shown = daemon.command("approve", "greet_all", input="n\n").stdout
        assert "\na = 1␍\n# nothing␍b = 2\n\\ No newline at the end\n" in shown
        assert change in shown
        daemon.skills = [detail(replace(GREET, code=f"{code}\n\n"), "proven")]
        assert shown.count("b = 2\n\n") < daemon.command("approve", "greet_all", input="n\n").stdout.count("b = 2\n\n")

    @pytest.mark.parametrize("answer", ["n\n", ""])
    def test_without_consent_nothing_is_approved(self, daemon: Daemon, answer: str) -> None:
        daemon.skills = [detail(state="proven")]
        assert daemon.command("approve", "greet_all", input=answer).exit_code == 1
        assert daemon.orders == []

    def test_a_version_can_be_named_and_the_question_left_out(self, daemon: Daemon) -> None:
        daemon.skills = [detail(state="proven"), detail(self.OLD, "proven")]
        ended = daemon.command("approve", "greet_all", self.OLD.version, "--yes")
        assert (ended.exit_code, daemon.orders) == (0, [{"version": self.OLD.version}])
        assert "Approve it?" not in ended.stderr

    def test_what_is_approved_already_stays_so(self, daemon: Daemon) -> None:
        daemon.skills = [detail()]
        ended = daemon.command("approve", "greet_all")
        assert (ended.exit_code, daemon.orders) == (0, [])
        assert "was already approved by admin" in ended.stderr

    @pytest.mark.parametrize(("state", "told"), [("draft", "is a draft:"), ("stale", "is stale:")])
    def test_what_is_not_proven_is_not_asked_about(self, daemon: Daemon, state: str, told: str) -> None:
        daemon.skills = [detail(state=state)]
        ended = daemon.command("approve", "greet_all")
        assert (ended.exit_code, daemon.orders) == (65, [])
        assert told in ended.stderr


class TestRetire:
    def test_exactly_what_was_asked_about_is_retired(self, daemon: Daemon) -> None:
        daemon.skills = [detail()]
        ended = daemon.command("retire", "greet_all", input="y\n")
        assert ended.exit_code == 0
        assert f"Retire greet_all, version {GREET.version} (approved, by developer)?" in ended.stderr
        assert daemon.asked[-1] == f"DELETE /skills/greet_all?version={GREET.version}"

    def test_whoever_uses_it_is_named_before(self, daemon: Daemon) -> None:
        user = replace(GREET, name="greet_more", tools=("skills/greet_all",))
        daemon.skills = [detail(), detail(user), detail(replace(user, name="unfinished"), "draft")]
        ended = daemon.command("retire", "greet_all", input="n\n")
        assert ended.stderr.splitlines()[0] == "code-executor: greet_more uses it and will become stale"
        assert "unfinished" not in ended.stderr

    def test_what_is_built_in_is_not_asked_about(self, daemon: Daemon) -> None:
        daemon.skills = [detail(author="(built-in)")]
        ended = daemon.command("retire", "greet_all")
        assert (ended.exit_code, len(daemon.asked)) == (64, 1)
        assert "Deny it to a role with skills/greet_all in tools.deny" in ended.stderr

    def test_whoever_must_not_retire_it_is_not_asked(self, daemon: Daemon) -> None:
        daemon.skills, daemon.who = [detail()], {"caller": "guest", "role": "guest", "approvesSkills": False}
        ended = daemon.command("retire", "greet_all")
        assert (ended.exit_code, "Retire greet_all" in ended.stderr) == (77, False)
        assert "Only developer, or a role that approves skills, may retire greet_all." in ended.stderr
        daemon.who["caller"] = "developer"
        assert daemon.command("retire", "greet_all", "--yes").exit_code == 0

    def test_without_consent_nothing_is_retired(self, daemon: Daemon) -> None:
        daemon.skills = [detail()]
        assert daemon.command("retire", "greet_all", input="n\n").exit_code == 1
        assert not any(each.startswith("DELETE") for each in daemon.asked)

    def test_what_is_retired_already_stays_so(self, daemon: Daemon) -> None:
        daemon.skills = [detail(state="retired")]
        ended = daemon.command("retire", "greet_all", "--version", GREET.version, "--yes")
        assert (ended.exit_code, len(daemon.asked)) == (0, 1)
        assert "is already retired" in ended.stderr


class TestReplay:
    def test_one_that_does_the_same_exits_with_0(self, daemon: Daemon) -> None:
        daemon.skills = [detail()]
        ended = daemon.command("replay", "greet_all", "--version", GREET.version)
        assert (ended.exit_code, daemon.orders) == (0, [{"version": GREET.version}])
        assert ended.stdout == f"greet_all, version {GREET.version}: does what was recorded\n"

    def test_one_that_differs_exits_with_1_and_says_how(self, daemon: Daemon) -> None:
        daemon.skills, daemon.replayed = [detail()], {"same": False, "problem": "It called chat/ask."}
        ended = daemon.command("replay", "greet_all")
        assert (ended.exit_code, daemon.orders) == (1, [{}])
        assert "differs: It called chat/ask." in ended.stdout

    def test_how_it_differs_shows_what_is_hidden(self, daemon: Daemon) -> None:
        daemon.skills, daemon.replayed = [detail()], {"same": False, "problem": "It called a\n\u2066b."}
        told = daemon.command("replay", "greet_all").stdout
        assert told == f"greet_all, version {GREET.version}: differs:\n  It called a\n  ⟨U+2066⟩b.\n"


class TestExport:
    DRAFT = replace(GREET, name="unfinished")

    @pytest.fixture(autouse=True)
    def _there(self, daemon: Daemon) -> None:
        daemon.skills = [detail(), detail(self.DRAFT, "draft")]

    def test_what_is_approved_is_written_byte_for_byte(self, daemon: Daemon, tmp_path: Path) -> None:
        ended = daemon.command("export", str(tmp_path / "new"))
        assert ended.exit_code == 0
        assert ended.stdout == f"{tmp_path / 'new' / 'greet_all'}  approved, version {GREET.version}\n"
        assert [path.name for path in (tmp_path / "new").iterdir()] == ["greet_all"]
        assert (tmp_path / "new/greet_all/code.py").read_bytes() == GREET.code.encode()
        assert json.loads((tmp_path / "new/greet_all/skill.json").read_text())["version"] == GREET.version

    def test_others_are_written_when_they_are_named(self, daemon: Daemon, tmp_path: Path) -> None:
        assert daemon.command("export", str(tmp_path), "unfinished").exit_code == 0
        assert [path.name for path in tmp_path.iterdir()] == ["unfinished"]

    def test_a_second_time_changes_nothing(self, daemon: Daemon, tmp_path: Path) -> None:
        daemon.command("export", str(tmp_path))
        before = (tmp_path / "greet_all").stat().st_ino
        assert daemon.command("export", str(tmp_path)).stdout.endswith(", unchanged\n")
        assert (tmp_path / "greet_all").stat().st_ino == before

    def test_a_newer_version_takes_the_place_of_its_files_and_of_nothing_else(
        self, daemon: Daemon, tmp_path: Path
    ) -> None:
        daemon.command("export", str(tmp_path))
        (tmp_path / "greet_all" / "README.md").write_text("mine")
        newer = replace(GREET, language=Language.TYPESCRIPT, code="export default () => ({});")
        daemon.skills = [detail(newer)]
        assert daemon.command("export", str(tmp_path)).exit_code == 0
        assert sorted(path.name for path in (tmp_path / "greet_all").iterdir()) == [
            "README.md",
            "code.ts",
            "skill.json",
        ]
        assert [path.name for path in tmp_path.iterdir()] == ["greet_all"]

    @pytest.mark.parametrize("options", [(), ("--claude",)])
    def test_a_folder_that_no_export_wrote_is_left_alone(
        self, daemon: Daemon, tmp_path: Path, options: tuple[str, ...]
    ) -> None:
        mine = tmp_path / ("greet-all" if options else "greet_all")
        mine.mkdir()
        (mine / "SKILL.md").write_text("mine")
        ended = daemon.command("export", str(tmp_path), *options)
        assert ended.exit_code == 73
        assert "is not an exported skill" in ended.stderr
        assert [path.read_text() for path in mine.iterdir()] == ["mine"]

    def test_a_link_does_not_lead_out_of_the_directory(self, daemon: Daemon, tmp_path: Path) -> None:
        daemon.command("export", str(tmp_path / "out"))
        elsewhere = tmp_path / "elsewhere"
        elsewhere.write_text("mine")
        code = tmp_path / "out/greet_all/code.py"
        code.unlink()
        code.symlink_to(elsewhere)
        assert daemon.command("export", str(tmp_path / "out")).exit_code == 0
        assert (elsewhere.read_text(), code.is_symlink()) == ("mine", False)

    @pytest.mark.parametrize("linked", ["scripts", "references"])
    def test_a_link_to_a_directory_does_not_lead_out_either(self, daemon: Daemon, tmp_path: Path, linked: str) -> None:
        daemon.command("export", str(tmp_path / "out"), "--claude")
        elsewhere = tmp_path / "elsewhere"
        (tmp_path / "out/greet-all" / linked).rename(elsewhere)
        before = {file.name: file.read_bytes() for file in elsewhere.iterdir()}
        (tmp_path / "out/greet-all" / linked).symlink_to(elsewhere)
        ended = daemon.command("export", str(tmp_path / "out"), "--claude")
        assert (ended.exit_code, "unchanged" in ended.stdout) == (0, False)
        assert {file.name: file.read_bytes() for file in elsewhere.iterdir()} == before
        assert not (tmp_path / "out/greet-all" / linked).is_symlink()
        assert daemon.command("export", str(tmp_path / "out"), "--claude").stdout.endswith(", unchanged\n")

    def test_links_and_files_of_others_stay_as_they_are(self, daemon: Daemon, tmp_path: Path) -> None:
        daemon.command("export", str(tmp_path / "out"), "--claude")
        mine = tmp_path / "out/greet-all"
        (mine / "scripts/more.py").write_text("mine")
        (mine / "docs").symlink_to(tmp_path)
        (mine / "scripts/greet_all.ts").symlink_to(tmp_path / "nowhere")
        daemon.skills = [detail(replace(GREET, code="def run(input): ..."))]
        assert daemon.command("export", str(tmp_path / "out"), "--claude").exit_code == 0
        assert sorted(path.name for path in (mine / "scripts").iterdir()) == ["greet_all.py", "more.py"]
        assert ((mine / "scripts/more.py").read_text(), (mine / "docs").readlink()) == ("mine", tmp_path)

    def test_a_directory_in_place_of_a_file_is_left_alone(self, daemon: Daemon, tmp_path: Path) -> None:
        daemon.command("export", str(tmp_path))
        code = tmp_path / "greet_all/code.py"
        code.unlink()
        code.mkdir()
        (code / "mine").write_text("mine")
        assert daemon.command("export", str(tmp_path)).exit_code == 73
        assert (code / "mine").read_text() == "mine"
        assert [path.name for path in tmp_path.iterdir()] == ["greet_all"]

    def test_what_cannot_take_its_place_leaves_what_was_there(
        self, daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        daemon.command("export", str(tmp_path))
        daemon.skills = [detail(replace(GREET, code="def run(input): ..."))]
        rename = os.rename

        def full(source: Path, target: Path) -> None:
            if source.suffix == ".part":
                raise OSError(28, "No space left on device", str(target))
            rename(source, target)

        monkeypatch.setattr(os, "rename", full)
        assert daemon.command("export", str(tmp_path)).exit_code == 73
        assert (tmp_path / "greet_all/code.py").read_bytes() == GREET.code.encode()
        assert [path.name for path in tmp_path.iterdir()] == ["greet_all"]

    def test_agents_get_a_folder_of_their_own_kind(self, daemon: Daemon, tmp_path: Path) -> None:
        assert daemon.command("export", str(tmp_path), "--claude").exit_code == 0
        written = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
        assert written == [
            "greet-all/SKILL.md",
            "greet-all/references/input.schema.json",
            "greet-all/references/output.schema.json",
            "greet-all/scripts/greet_all.py",
        ]
        assert "greet_all(args?: { who?: string; times?: number })" in (tmp_path / written[0]).read_text()
        assert daemon.command("export", str(tmp_path), "--claude").stdout.endswith(", unchanged\n")

    @pytest.mark.processes
    @pytest.mark.parametrize("content", [GREET, ODDLY_DESCRIBED, *BUILT_IN], ids=lambda content: content.name)
    def test_the_reference_implementation_takes_them_for_agent_skills(
        self, daemon: Daemon, tmp_path: Path, content: SkillContent
    ) -> None:
        daemon.skills = [detail(content)]
        daemon.command("export", str(tmp_path), "--claude")
        folder = tmp_path / content.name.replace("_", "-")
        ended = subprocess.run([AGENTSKILLS, "validate", folder], capture_output=True, text=True, timeout=60)
        assert (ended.returncode, ended.stderr) == (0, "")
        told = subprocess.run([AGENTSKILLS, "read-properties", folder], capture_output=True, text=True, timeout=60)
        assert json.loads(told.stdout)["description"] == content.description

    def test_every_built_in_skill_is_among_them(self) -> None:
        assert len(BUILT_IN) == 10

    @pytest.mark.processes
    def test_the_reference_implementation_refuses_what_is_none(self, tmp_path: Path) -> None:
        (tmp_path / "SKILL.md").write_text("---\nname: Other\n---\n")
        assert subprocess.run([AGENTSKILLS, "validate", tmp_path], capture_output=True, timeout=60).returncode != 0


class TestImport:
    @pytest.fixture
    def written(self, daemon: Daemon, tmp_path: Path) -> Path:
        """A directory with two skills, of which the first by name uses the second, from another installation."""
        user = replace(GREET, name="a_user", tools=("skills/greet_all",))
        daemon.skills = [detail(user), detail()]
        daemon.command("export", str(tmp_path))
        daemon.skills, daemon.asked = [], []
        return tmp_path

    def test_what_was_exported_is_saved_as_the_same_version(self, daemon: Daemon, written: Path) -> None:
        ended = daemon.command("import", str(written / "greet_all"))
        assert (ended.exit_code, ended.stdout) == (0, "greet_all: proven\n")
        assert daemon.orders == [GREET.as_document()]
        assert daemon.skills[0]["version"] == GREET.version

    def test_a_skill_follows_those_that_it_uses(self, daemon: Daemon, written: Path) -> None:
        ended = daemon.command("import", str(written))
        assert (ended.exit_code, ended.stdout) == (0, "greet_all: proven\na_user: proven\n")

    def test_a_second_time_saves_nothing(self, daemon: Daemon, written: Path) -> None:
        daemon.command("import", str(written))
        ended = daemon.command("import", str(written), str(written / "greet_all"))
        assert ended.stdout == "greet_all: proven, already here\na_user: proven, already here\n"
        assert len(daemon.orders) == 2

    def test_one_that_is_stale_here_is_proven_again(self, daemon: Daemon, written: Path) -> None:
        daemon.skills = [detail(state="stale")]
        assert daemon.command("import", str(written / "greet_all")).stdout == "greet_all: proven\n"

    def test_one_that_was_changed_by_hand_is_a_new_version(self, daemon: Daemon, written: Path) -> None:
        (written / "greet_all/code.py").write_bytes(GREET.code.replace("\r\n", "\n").encode())
        ended = daemon.command("import", str(written / "greet_all"))
        version = replace(GREET, code=GREET.code.replace("\r\n", "\n")).version
        assert ended.exit_code == 0
        assert f"changed after it was exported: a new version, {version}" in ended.stdout

    def test_a_draft_exits_with_1(self, daemon: Daemon, written: Path) -> None:
        daemon.saved_as = "draft"
        daemon.remarks = [{"kind": "failed", "message": "No.", "place": ""}]
        ended = daemon.command("import", str(written / "greet_all"))
        assert (ended.exit_code, ended.stdout) == (1, "greet_all: draft\n  failed: No.\n")

    def test_one_that_is_refused_does_not_keep_the_others(self, daemon: Daemon, written: Path) -> None:
        refusal = {"detail": "It must not.", "hint": "", "code": "skill_refused"}
        daemon.refusals[f"GET /skills/greet_all?version={GREET.version}"] = (404, NOT_FOUND)
        daemon.refusals["POST /skills"] = (422, refusal)
        ended = daemon.command("import", str(written), "--json")
        assert ended.exit_code == 1
        assert [each["state"] for each in json.loads(ended.stdout)["skills"]] == ["refused", "refused"]

    def test_what_would_befall_all_ends_the_command(self, daemon: Daemon, written: Path) -> None:
        refusal = {"detail": "Who?", "hint": "", "code": "unauthenticated"}
        daemon.refusals["POST /skills"] = (401, refusal)
        assert daemon.command("import", str(written)).exit_code == 77
        assert len(daemon.orders) == 1

    @pytest.mark.parametrize(
        ("file", "content", "told"),
        [
            ("skill.json", b"{", "skill.json must be JSON"),
            ("code.py", b"\xff", "code.py must be UTF-8"),
            ("code.py", b"#" * (MAX_CODE_BYTES + 1), f"code.py must have at most {MAX_CODE_BYTES} bytes"),
            ("skill.json", b" " * (MAX_DESCRIPTION_FILE_BYTES + 1), "skill.json must have at most 4194304 bytes"),
        ],
    )
    def test_a_folder_that_cannot_be_read_is_told_before_anything_is_sent(
        self, daemon: Daemon, written: Path, file: str, content: bytes, told: str
    ) -> None:
        (written / "greet_all" / file).write_bytes(content)
        ended = daemon.command("import", str(written))
        assert (ended.exit_code, daemon.asked) == (65, [])
        assert told in ended.stderr

    def test_others_are_imported_and_every_folder_that_cannot_be_is_told(self, daemon: Daemon, written: Path) -> None:
        for name in ("broken", "torn", "unread"):
            (written / name).mkdir()
            (written / name / "skill.json").write_text("{")
        (written / "unread" / "skill.json").chmod(0)
        given = ("import", str(written / "no"), str(written))
        ended = daemon.command(*given)
        assert (ended.exit_code, ended.stdout) == (66, "greet_all: proven\na_user: proven\n")
        assert [line for line in ended.stderr.splitlines() if str(written / "no") in line]
        for name in ("broken", "torn", "unread"):
            assert str(written / name) in ended.stderr
        ended = daemon.command(*given, "--json")
        assert [each["isNew"] for each in json.loads(ended.stdout)["skills"]] == [False, False]
        left_out = [each["folder"] for each in json.loads(ended.stdout)["leftOut"]]
        assert left_out == [str(written / name) for name in ("no", "broken", "torn", "unread")]
        assert (ended.exit_code, len(daemon.orders)) == (66, 2)

    def test_what_uses_a_folder_that_cannot_be_read_is_left_out(self, daemon: Daemon, written: Path) -> None:
        alone, user = replace(GREET, name="alone"), replace(GREET, name="b_user", tools=("skills/a_user",))
        daemon.skills = [detail(alone), detail(user)]
        daemon.command("export", str(written))
        daemon.skills, daemon.asked = [], []
        (written / "greet_all/code.py").write_bytes(b"\xff")
        ended = daemon.command("import", str(written))
        assert (ended.exit_code, ended.stdout) == (65, "alone: proven\n")
        assert f"{written / 'a_user'} was left out: it uses greet_all, which cannot be imported." in ended.stderr
        assert f"{written / 'b_user'} was left out: it uses a_user, which cannot be imported." in ended.stderr

    @pytest.mark.parametrize("linked", ["greet_all", "greet_all/skill.json", "greet_all/code.py", "greet_all/code.ts"])
    def test_links_are_not_followed(self, daemon: Daemon, written: Path, tmp_path: Path, linked: str) -> None:
        elsewhere = tmp_path / ".elsewhere"
        if (written / linked).exists():
            (written / linked).rename(elsewhere)
        else:
            elsewhere.write_text("secret")
        (written / linked).symlink_to(elsewhere)
        ended = daemon.command("import", str(written))
        assert (ended.exit_code, daemon.asked) == (65, [])
        assert f"{linked} is a link, which import does not follow" in ended.stderr

    def test_the_largest_code_is_imported(self, daemon: Daemon, written: Path) -> None:
        (written / "greet_all/code.py").write_bytes(b"#" * MAX_CODE_BYTES)
        assert daemon.command("import", str(written / "greet_all")).exit_code == 0

    def test_two_versions_of_one_skill_are_not_both_imported(self, daemon: Daemon, written: Path) -> None:
        other = written / "other" / "greet_all"
        other.mkdir(parents=True)
        for file in (written / "greet_all").iterdir():
            (other / file.name).write_bytes(file.read_bytes() + b"\n")
        ended = daemon.command("import", str(written / "greet_all"), str(other))
        assert (ended.exit_code, daemon.asked) == (65, [])
        assert "hold different versions of greet_all" in ended.stderr

    def test_folders_for_agents_are_told_apart(self, daemon: Daemon, tmp_path: Path) -> None:
        (tmp_path / "greet-all").mkdir()
        (tmp_path / "greet-all" / "SKILL.md").write_text("")
        ended = daemon.command("import", str(tmp_path))
        assert ended.exit_code == 65
        assert "export without --claude" in ended.stderr

    def test_a_directory_that_is_not_there_is_named(self, daemon: Daemon, tmp_path: Path) -> None:
        assert daemon.command("import", str(tmp_path / "no")).exit_code == 66

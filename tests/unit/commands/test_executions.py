"""`code-executor executions` and `code-executor show`: what they ask the daemon for, and what they print."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from rich.console import Console

from orchestrator.commands.executions import NotATime, moment, print_list, print_one
from orchestrator.domain.execution import (
    Ending,
    ExecutionRecord,
    Kind,
    Language,
    Outcome,
    Page,
    State,
    Timings,
    Usage,
)
from orchestrator.domain.ledger import CallOutcome, ToolCall
from orchestrator.faces.bodies import ExecutionDetail, ExecutionSummary

ID = "0f8fad5bd9cb469fa16570867728950e"
ACCEPTED_AT = datetime(2026, 11, 16, 9, 30, tzinfo=UTC).timestamp()
ACCEPTED = ExecutionRecord(
    id=ID,
    caller="alice",
    role="developer",
    state=State.RUNNING,
    accepted_at=ACCEPTED_AT,
    language=Language.PYTHON,
    code_bytes=42,
    timings=Timings(0.001, 0.02, 1.213),
)
FINISHED = ACCEPTED.ended(Ending(Outcome.COMPLETED, exit_code=0, usage=Usage(0.5, 1)), ACCEPTED_AT + 1)
READ = ToolCall("filesystem", "read_file", CallOutcome.DONE, 10, 25, 64, 2048)

# Everything below 0x20, DEL and C1: what a terminal may take for a command. Tab and newline are for layout.
COMMANDS_TO_A_TERMINAL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
HOSTILE = "[bold red]not bold[/] [/] [link=x]y[/link] :bug: \x1b[2J\x1b]0;title\x07 \x9b31m a\rb\x08\x7f\x00"
HARMLESS = "[bold red]not bold[/] [/] [link=x]y[/link] :bug: ␛[2J␛]0;title␇ \ufffd31m a"


def detail_of(record: ExecutionRecord, stdout: str = "", stderr: str = "") -> dict[str, Any]:
    """Describe an execution as the API does."""
    pages = [Page(text.encode(), len(text.encode())) for text in (stdout, stderr)]
    return json.loads(ExecutionDetail.of_pages(record, pages[0], pages[1], 0).model_dump_json(by_alias=True))


def summary_of(record: ExecutionRecord) -> dict[str, Any]:
    return json.loads(ExecutionSummary.of(record).model_dump_json(by_alias=True))


def printed(write: Callable[[Console], None], *, width: int = 80) -> str:
    """Return what reaches a terminal of this width that can show colours."""
    file = StringIO()
    write(Console(file=file, width=width, soft_wrap=True, force_terminal=True, color_system="truecolor"))
    return file.getvalue()


def lines_of(text: str) -> list[str]:
    without_our_colours = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return [re.sub(r" {2,}", "  ", line).strip() for line in without_our_colours.splitlines()]


def shown(record: ExecutionRecord, stdout: str = "", stderr: str = "") -> list[str]:
    return lines_of(printed(lambda console: print_one(console, detail_of(record, stdout, stderr))))


def listed(*records: ExecutionRecord) -> list[str]:
    return lines_of(printed(lambda console: print_list(console, [summary_of(record) for record in records])))


@pytest.fixture(autouse=True)
def _local_time_is_an_hour_ahead(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC-1")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


class TestMoment:
    @pytest.mark.parametrize(
        ("text", "age"),
        [
            ("90s", timedelta(seconds=90)),
            ("15m", timedelta(minutes=15)),
            ("2h", timedelta(hours=2)),
            ("7d", timedelta(days=7)),
            ("0s", timedelta()),
        ],
    )
    def test_an_age_counts_from_now(self, text, age):
        before = datetime.now(UTC)
        found = datetime.fromisoformat(moment(text))
        assert before - age <= found <= datetime.now(UTC) - age
        assert found.utcoffset() == timedelta()

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("2026-11-16T09:30+02:00", "2026-11-16T07:30:00+00:00"),
            ("2026-11-16T09:30:15Z", "2026-11-16T09:30:15+00:00"),
            ("2026-11-16T09:30", "2026-11-16T08:30:00+00:00"),  # local time
            ("2026-11-16", "2026-11-15T23:00:00+00:00"),
        ],
    )
    def test_a_time_is_local_unless_it_has_an_offset(self, text, expected):
        assert moment(text) == expected

    @pytest.mark.parametrize(
        "text",
        ["", "yesterday", "2 h", "2H", "-2h", "1.5h", "h", "٢h", "1234567s", "999999d", "2026-13-01", "0001-01-01"],
    )
    def test_anything_else_is_refused_with_examples(self, text):
        with pytest.raises(NotATime, match=r"must be an age like 15m, 2h or 7d, or a time like 2026-11-16T09:30\.$"):
            moment(text)


class TestShow:
    def test_a_finished_program(self):
        assert shown(FINISHED, "4\n", "") == [
            f"execution  {ID}",
            "outcome  completed",
            "exit code  0",
            "caller  alice (developer)",
            "program  python, 42 bytes",
            "accepted  2026-11-16 10:30:00",
            "time  1234 ms (queue 1, start 20, run 1213; 500 ms of CPU)",
            "",
            "stdout",
            "4",
        ]

    def test_a_failure_on_our_side_comes_with_its_cause(self):
        ending = Ending(Outcome.SANDBOX_ERROR, error_code="sandbox_error", detail="The runner ended.")
        lines = shown(ACCEPTED.ended(ending, ACCEPTED_AT + 1), "", "half a line")
        assert lines[1:3] == ["outcome  sandbox_error", "error  The runner ended. (sandbox_error)"]
        assert not any(line.startswith("exit code") for line in lines)
        assert lines[-2:] == ["stderr", "half a line"]

    def test_what_was_refused_has_a_reason_and_took_no_time(self):
        refused = replace(ACCEPTED, state=State.REFUSED, error_code="queue_full", detail="64 executions wait.")
        lines = shown(refused)
        assert lines[1:3] == ["outcome  refused", "error  64 executions wait. (queue_full)"]
        assert not any(line.startswith("time") for line in lines)

    def test_what_the_daemon_interrupted_is_told_so(self):
        interrupted = replace(
            ACCEPTED,
            state=State.INTERRUPTED,
            outcome=Outcome.SANDBOX_ERROR,
            error_code="interrupted",
            detail="The daemon stopped before the program ended.",
        )
        assert shown(interrupted)[1] == "outcome  interrupted"

    def test_a_single_call_has_no_program(self):
        call = replace(ACCEPTED, kind=Kind.CALL, language=None, code_bytes=None, tool_calls=(READ,))
        lines = shown(call.ended(Ending(Outcome.COMPLETED), ACCEPTED_AT + 1))
        assert not any(line.startswith("program") for line in lines)
        assert lines[-2:] == [
            "Tool call  Outcome  Began  Took  Sent  Got  Detail",
            "filesystem/read_file  done  10 ms  25 ms  64 B  2048 B",
        ]

    def test_the_layout_of_what_was_printed_stays(self):
        text = printed(lambda console: print_one(console, detail_of(FINISHED, f"a\tb  \n\n{'x' * 300}\n")))
        assert text.endswith(f"\na\tb  \n\n{'x' * 300}\n")

    @pytest.mark.parametrize("stream", ["stdout", "stderr"])
    def test_what_a_program_printed_is_never_obeyed(self, stream):
        plain = printed(lambda console: print_one(console, detail_of(FINISHED, **{stream: "?"})))
        text = printed(lambda console: print_one(console, detail_of(FINISHED, **{stream: HOSTILE})))
        assert COMMANDS_TO_A_TERMINAL.findall(text) == COMMANDS_TO_A_TERMINAL.findall(plain)
        assert f"\n{HARMLESS}\nb␈␡␀\n" in text

    def test_no_other_text_is_obeyed_either(self):
        call = replace(READ, server=f"s{HOSTILE}", tool=f"t{HOSTILE}", detail=HOSTILE)
        record = replace(
            FINISHED, id=HOSTILE, caller=HOSTILE, role=HOSTILE, error_code="e", detail=HOSTILE, tool_calls=(call,)
        )
        text = printed(lambda console: print_one(console, detail_of(record)))
        assert not COMMANDS_TO_A_TERMINAL.search(re.sub(r"\x1b\[[0-9;]*m", "", text))
        assert "\x1b[2J" not in text
        assert "\x1b]" not in text
        assert text.count(HARMLESS) == 7


class TestList:
    def test_a_row_for_each_execution(self):
        failed = ACCEPTED.ended(Ending(Outcome.FAILED, exit_code=3), ACCEPTED_AT + 1)
        call = replace(FINISHED, kind=Kind.CALL, language=None)
        refused = replace(ACCEPTED, state=State.REFUSED, error_code="queue_full", detail="")
        assert listed(replace(FINISHED, stdout_bytes=9), failed, call, refused, ACCEPTED) == [
            "Accepted  Execution  Outcome  Language  Time  Output  Caller",
            f"2026-11-16 10:30:00  {ID}  completed  python  1234 ms  9 B  alice",
            f"2026-11-16 10:30:00  {ID}  failed  python  1234 ms  0 B  alice",
            f"2026-11-16 10:30:00  {ID}  completed  tool call  1234 ms  0 B  alice",
            f"2026-11-16 10:30:00  {ID}  refused  python  alice",
            f"2026-11-16 10:30:00  {ID}  running  python  alice",
        ]

    def test_an_id_is_whole_on_a_narrow_terminal(self):
        text = printed(lambda console: print_list(console, [summary_of(FINISHED)]), width=40)
        assert ID in text
        assert len(text.splitlines()) == 2

    def test_no_text_is_obeyed(self):
        text = printed(lambda console: print_list(console, [summary_of(replace(FINISHED, caller=HOSTILE))]))
        assert HARMLESS in text
        assert not COMMANDS_TO_A_TERMINAL.search(re.sub(r"\x1b\[[0-9;]*m", "", text))


class TestCommands:
    def test_the_filters_are_passed_on(self, daemon):
        daemon.answer({"executions": [summary_of(FINISHED)], "next": None})
        ended = daemon.run(
            *("executions", "--outcome", "failed", "--caller", "a&b", "--language", "python", "--limit", "3"),
            *("--tool", "github/create_issue", "--since", "2026-11-16T09:30Z", "--until", "2026-11-16T10:30Z"),
        )
        assert ended.exit_code == 0
        assert ID in ended.stdout
        asked = urlsplit(daemon.asked[0])
        assert asked.path == "/executions"
        assert {name: values[0] for name, values in parse_qs(asked.query).items()} == {
            "outcome": "failed",
            "caller": "a&b",
            "language": "python",
            "tool": "github/create_issue",
            "since": "2026-11-16T09:30:00+00:00",
            "until": "2026-11-16T10:30:00+00:00",
            "limit": "3",
        }

    def test_a_time_that_is_none_is_refused_before_anything_is_asked(self, daemon):
        ended = daemon.run("executions", "--since", "yesterday")
        assert ended.exit_code == 64
        assert ended.stderr == (
            "code-executor: 'yesterday' must be an age like 15m, 2h or 7d, or a time like 2026-11-16T09:30.\n"
        )
        assert daemon.asked == []

    def test_an_empty_list_is_told_on_stderr(self, daemon):
        daemon.answer({"executions": [], "next": None})
        ended = daemon.run("executions")
        assert (ended.exit_code, ended.stdout, ended.stderr) == (0, "", "No execution matches.\n")

    def test_what_the_daemon_refuses_is_told_in_one_line(self, daemon):
        daemon.refuse(422, "`caller` must have\n1 to 64 characters.", "Correct it.", "invalid_request")
        ended = daemon.run("executions", "--caller", "x" * 65)
        assert ended.exit_code == 64
        assert ended.stderr == "code-executor: --caller must have 1 to 64 characters. (invalid_request)\n"

    def test_an_unknown_execution_is_told_in_one_line(self, daemon):
        daemon.refuse(404, "There is no execution \x1b[31mx.", "Check the id.", "not_found")
        ended = daemon.run("show", "../\x1b[31mx")
        assert (ended.exit_code, ended.stdout) == (66, "")
        assert ended.stderr == "code-executor: There is no execution ␛[31mx. Check the id. (not_found)\n"
        assert daemon.asked == ["/executions/..%2F%1B%5B31mx"]

    def test_show_without_an_id_takes_ones_own_newest_program(self, daemon):
        daemon.answer({"caller": "alice & co", "role": "admin", "seesAllExecutions": True})
        daemon.answer({"executions": [summary_of(FINISHED)], "next": None})
        daemon.answer(detail_of(FINISHED, "hello\n"))
        ended = daemon.run("show")
        assert ended.exit_code == 0
        assert ended.stdout.endswith("\nstdout\nhello\n")
        asked = "/executions?limit=1&kind=program&caller=alice+%26+co"
        assert daemon.asked == ["/whoami", asked, f"/executions/{ID}"]

    def test_show_says_when_nothing_has_run(self, daemon):
        daemon.answer({"caller": "alice", "role": "admin", "seesAllExecutions": True})
        daemon.answer({"executions": [], "next": None})
        ended = daemon.run("show")
        assert (ended.exit_code, ended.stderr) == (66, "code-executor: You have run nothing yet.\n")

    def test_json_is_exact_and_still_no_command_to_a_terminal(self, daemon):
        found = detail_of(FINISHED, HOSTILE)
        daemon.answer(found)
        ended = daemon.run("show", ID, "--json")
        assert json.loads(ended.stdout) == found
        assert not COMMANDS_TO_A_TERMINAL.search(ended.stdout)

from __future__ import annotations

from typing import Any

from orchestrator.domain.execution import Outcome, State, Stream
from orchestrator.faces.mcp.models import ExecutionPage, SearchMatch
from orchestrator.faces.mcp.stored_output import matches_text, page_text


def page(**found: Any) -> ExecutionPage:
    ended = {"state": State.FINISHED, "outcome": Outcome.COMPLETED, **found}
    return ExecutionPage(execution_id="e1", stream=Stream.STDOUT, total_bytes=100, **ended)


def test_a_page_says_where_it_is_and_how_to_go_on():
    text = page_text(page(offset=10, text="one\ntwo\n", next_offset=18))
    assert text == 'stdout of e1 (completed): bytes 10 to 18 of 100; go on with "offset": 18\n\none\ntwo'


def test_the_last_page_ends_there():
    assert page_text(page(offset=92, text="the end\n")).startswith(
        "stdout of e1 (completed): bytes 92 to 100 of 100\n\n"
    )


def test_beyond_the_end_there_is_nothing():
    assert page_text(page(offset=200, text="")) == "stdout of e1 (completed): nothing; it has 100 bytes"


def test_a_running_execution_is_said_to_run_and_can_be_waited_for():
    running = page(state=State.RUNNING, outcome=None, offset=0, text="up", next_offset=100)
    assert page_text(running).startswith(
        'stdout of e1 (running): bytes 0 to 100 of 100; go on with "offset": 100, "waitSeconds": 30\n'
    )


def test_one_that_failed_says_how_and_where_to_read_why():
    failed = page(outcome=Outcome.FAILED, exit_code=3, offset=0, text="out", stderr_bytes=20)
    assert page_text(failed).startswith(
        'stdout of e1 (failed with exit code 3): bytes 0 to 100 of 100; "stream": "stderr" has 20 bytes\n'
    )


def test_matches_are_lines_with_their_place():
    found = [SearchMatch(line=3, offset=40, text="an error")]
    assert matches_text(page(matches=found, match_count=7, next_offset=41), "error") == (
        "stdout of e1 (completed): 1 of 7 lines with 'error'; go on with \"offset\": 41\nline 3, offset 40: an error"
    )

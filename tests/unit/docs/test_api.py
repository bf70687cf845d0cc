"""What docs/api.md and docs/programs.md say must be so."""

from __future__ import annotations

import json
import re
from itertools import chain
from typing import Any

from orchestrator.domain.execution import Outcome
from orchestrator.domain.ledger import CallOutcome
from orchestrator.faces.bodies import ExecutionReply
from orchestrator.faces.http.events import EVENTS
from orchestrator.faces.http.openapi import document
from orchestrator.faces.http.routes import ROUTES
from orchestrator.settings import Settings
from tests.unit.docs.pages import blocks_in, in_one_line, page, rows, section

API = page("docs/api.md")
PROGRAMS = page("docs/programs.md")


def keys_of(value: Any) -> Any:
    return {name: keys_of(inner) for name, inner in value.items()} if isinstance(value, dict) else None


def test_the_table_of_calls_is_the_api():
    documented = {cells[0] for cells in rows(section(API, "Calls"))}
    described = document(ROUTES, "0")["paths"]
    assert documented == {f"{method.upper()} {path}" for path, methods in described.items() for method in methods}


def test_the_example_reply_has_the_fields_of_the_api():
    shown = json.loads(blocks_in("json", section(API, "Running a program"))[0])
    assert keys_of(shown) == keys_of(ExecutionReply.model_validate(shown).model_dump(by_alias=True))


def test_the_readme_shows_fields_of_the_reply():
    shown = blocks_in("text", page("README.md"))[0]
    named = re.findall(r'"(\w+)":', shown)
    assert named
    assert set(named) <= {field.alias for field in ExecutionReply.model_fields.values()}


def test_every_outcome_is_explained():
    assert {cells[0] for cells in rows(section(API, "Running a program"))} == set(Outcome)


def test_the_events_of_the_stream_are_those_that_are_sent():
    sent = set(EVENTS)
    assert set(chain(*(re.findall(r"\w+", cells[0]) for cells in rows(section(API, "Streaming"))))) == sent


def test_the_places_in_the_queue_are_the_defaults():
    default = {name: field.default for name, field in Settings.model_fields.items()}
    run = f"{default['max_running']} executions run at once, at most {default['max_running_per_caller']} of one caller"
    wait = f"{default['max_waiting']} wait, at most {default['max_waiting_per_caller']} of one caller"
    assert f"{run}; {wait}" in in_one_line(section(API, "Waiting"))


def test_every_outcome_of_a_tool_call_is_named():
    told = section(PROGRAMS, "The record of calls").split("outcome (")[1].split(")")[0]
    assert set(re.findall(r"`(\w+)`", told)) == set(CallOutcome)


def test_every_error_that_a_program_can_catch_is_explained():
    library = page("runner-image/client-library/python/errors.py")
    assert {cells[0] for cells in rows(section(PROGRAMS, "Errors"))} == set(
        re.findall(r"^class (\w+)", library, flags=re.MULTILINE)
    )


def test_every_function_of_discovery_is_named():
    source = "".join(page(f"orchestrator/wrappers/{language}/backend.py") for language in ("python", "typescript"))
    functions = set(re.findall(r"export async function (\w+)|^def ([a-z]\w+)\(", source, flags=re.MULTILINE))
    there = {name for pair in functions for name in pair if name and not name.endswith("_discovery")}
    assert there
    assert set(re.findall(r"`?(\w+)\(", section(PROGRAMS, "Finding tools"))) == there

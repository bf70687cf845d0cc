"""What the daemon refuses, in the words of the command line, and the exit codes that go with it."""

from __future__ import annotations

import re

import pytest
from typer.main import get_command

from orchestrator.commands.cli import app
from orchestrator.commands.refusals import GIVEN, HINTS, in_own_words
from orchestrator.commands.terminal import exit_of_refusal
from orchestrator.domain.errors import kinds

IN_TERMS_OF_THE_API = re.compile(r"\b(GET|POST|DELETE) /|`\w+`")
# What the command line never meets: it sends no such requests.
OF_OTHERS = {"malformed_json", "unsupported_content_type"}


def test_no_hint_names_a_route_or_a_field():
    told = {kind.code: HINTS.get(kind.code, " ".join((kind.__doc__ or "").split())) for kind in kinds()}
    assert [code for code, hint in told.items() if IN_TERMS_OF_THE_API.search(hint) and code not in OF_OTHERS] == []


def test_every_hint_is_for_an_error_that_there_is():
    assert HINTS.keys() - {kind.code for kind in kinds()} == set()


def test_the_commands_and_options_of_hints_exist():
    commands = get_command(app).commands  # type: ignore[attr-defined]
    text = " ".join(HINTS.values())
    assert set(re.findall(r"code-executor ([a-z]+)", text)) - commands.keys() == set()
    options = {option for command in commands.values() for parameter in command.params for option in parameter.opts}
    named = re.findall(r"--[a-z-]+", " ".join((text, *GIVEN.values())))
    assert set(named) - options == set()


@pytest.mark.parametrize(
    ("detail", "hint", "code", "told"),
    [
        (
            "`timeoutSeconds` must be at most 300. A longer one needs `background`.",
            "Correct the request.",
            "invalid_request",
            "--timeout must be at most 300. A longer one needs --background. (invalid_request)",
        ),
        ("`odd` is unknown.", "", "invalid_request", "`odd` is unknown. (invalid_request)"),
        ("Too many.", "Try later.", "queue_full", "Too many. Try later. (queue_full)"),
        ("New.", "Do so.", "of_a_newer_daemon", "New. Do so. (of_a_newer_daemon)"),
    ],
)
def test_a_refusal_is_told_with_options_and_what_to_do(detail, hint, code, told):
    assert in_own_words(detail, hint, code) == told


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("invalid_request", 64),
        ("file_too_large", 65),
        ("digest_mismatch", 65),
        ("already_finished", 65),
        ("not_found", 66),
        ("file_not_found", 66),
        ("workspace_not_found", 66),
        ("engine_unavailable", 69),
        ("of_a_newer_daemon", 69),
        ("quota_exceeded", 73),
        ("queue_full", 75),
        ("workspace_busy", 75),
        ("unauthenticated", 77),
        ("not_for_your_role", 77),
    ],
)
def test_only_a_daemon_in_trouble_is_unavailable(code, exit_code):
    assert exit_of_refusal(code) == exit_code

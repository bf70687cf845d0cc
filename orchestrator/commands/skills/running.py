"""Runs a skill, as if it ran here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.commands.client import CallFailed
from orchestrator.commands.files import require_writable_directories
from orchestrator.commands.run import Started, conclude, exit_interrupted, passed_on
from orchestrator.commands.skills.answers import asked
from orchestrator.commands.skills.json_words import object_in, object_in_file
from orchestrator.commands.terminal import (
    EXIT_BAD_USE,
    AsJson,
    Json,
    OutDirectory,
    api_client,
    directory_named,
    fail,
    fail_to_call,
)


def run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The skill's name.")],
    given: Annotated[
        list[str] | None,
        typer.Argument(metavar="INPUT", help="Its input: one JSON object, or key=value as often as needed."),
    ] = None,
    input_file: Annotated[
        str | None, typer.Option("--input", metavar="FILE", help="A file with the input as JSON; - is standard input.")
    ] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds for the skill, at most 300.")] = None,
    images: Annotated[
        Path | None,
        typer.Option(metavar="DIR", parser=directory_named, help="Directory for the pictures that the skill shows."),
    ] = None,
    out_dir: OutDirectory = None,
    as_json: AsJson = False,
) -> None:
    """Run a skill; what it returns is printed as JSON, and the exit codes are those of `code-executor run`."""
    started = Started()
    try:
        wanted = _input(name, given or (), input_file)
        require_writable_directories(images, out_dir)
        client = api_client()
        result = asyncio.run(passed_on(client.run_skill(name, wanted, timeout), started, quiet=as_json))
    except CallFailed as error:
        fail_to_call(error)
    except KeyboardInterrupt:
        exit_interrupted(started)
    conclude(client, result, images, out_dir, as_json=as_json)


def _input(name: str, given: Sequence[str], file: str | None) -> Json:
    if file is not None:
        if given:
            fail("The input comes from --input or from the command line. Use one of them.", EXIT_BAD_USE)
        return object_in_file(file, "--input")
    if not given:
        return {}
    if given[0].lstrip().startswith("{"):
        if len(given) > 1:
            fail("The input must be one JSON object, or key=value as often as needed.", EXIT_BAD_USE)
        return object_in(given[0], "The input")
    return _named(name, given)


def _named(name: str, given: Sequence[str]) -> Json:
    """Read key=value: a value is text where the skill takes text, else JSON if it is JSON."""
    properties = asked(name)["input"].get("properties") or {}
    values: Json = {}
    for word in given:
        key, equals, text = word.partition("=")
        if not equals or not key:
            fail(f"{word!r} must be key=value, or the whole input a JSON object.", EXIT_BAD_USE)
        if key in values:
            fail(f"{key} is given twice. Write a list as JSON: {key}='[1, 2]'.", EXIT_BAD_USE)
        schema = properties.get(key)
        takes_text = isinstance(schema, dict) and schema.get("type") == "string"
        values[key] = text if takes_text else _value(text)
    return values


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text

"""Runs a skill, as if it ran here."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.commands.client import CallFailed
from orchestrator.commands.files import require_writable_directories
from orchestrator.commands.run import Started, conclude, exit_interrupted, passed_on
from orchestrator.commands.skills.answers import asked
from orchestrator.commands.skills.json_words import NotInJson, json_in, object_in, object_in_file
from orchestrator.commands.terminal import (
    EXIT_BAD_USE,
    AsJson,
    Json,
    OutDirectory,
    api_client,
    directory_named,
    fail,
    fail_to_call,
    not_empty,
    positive_time,
)
from orchestrator.domain.json_schema import mismatches


def run(
    name: Annotated[str, typer.Argument(metavar="NAME", callback=not_empty, help="The skill's name.")],
    given: Annotated[
        list[str] | None,
        typer.Argument(metavar="INPUT", help="Its input: one JSON object, or any number of key=value."),
    ] = None,
    input_file: Annotated[
        str | None, typer.Option("--input", metavar="FILE", help="A file with the input as JSON; - is standard input.")
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", callback=positive_time, help="Seconds for the skill, at most 300."),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(metavar="DIR", parser=directory_named, help="Directory for the pictures that the skill shows."),
    ] = None,
    out_dir: OutDirectory = None,
    as_json: AsJson = False,
) -> None:
    """Run a skill; it prints a text as it is, nothing for null, and any other result as JSON.

    The exit codes are those of `code-executor run`.
    """
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
            fail("Give the input with --input or on the command line, not both.", EXIT_BAD_USE)
        return object_in_file(file, "--input")
    if not given:
        return {}
    if given[0].lstrip().startswith("{"):
        if len(given) > 1:
            fail("The input must be one JSON object, or any number of key=value.", EXIT_BAD_USE)
        return object_in(given[0], "The input")
    return _named(name, given)


def _named(name: str, given: Sequence[str]) -> Json:
    schema = asked(name)["input"]
    values: Json = {}
    for word in given:
        key, equals, text = word.partition("=")
        if not equals or not key:
            fail(f"{word!r} must be key=value, or the whole input a JSON object.", EXIT_BAD_USE)
        if key in values:
            fail(f"{key} is given twice. Write a list as JSON: {key}='[1, 2]'.", EXIT_BAD_USE)
        values[key] = _value(schema, key, text)
    return values


def _value(schema: Json, key: str, text: str) -> Any:
    """Read a value as JSON, unless the skill takes only text there, or takes the text and not what JSON makes of it."""
    own = (schema.get("properties") or {}).get(key)
    if isinstance(own, dict) and own.get("type") == "string":
        return text
    try:
        value = json_in(text)
    except NotInJson as error:
        if _takes(schema, key, text):
            return text
        fail(f"{key} cannot be sent: {error}.", EXIT_BAD_USE)
    except (ValueError, RecursionError):
        return text
    return text if _takes(schema, key, text) and not _takes(schema, key, value) else value


def _takes(schema: Json, key: str, value: Any) -> bool:
    return not mismatches({**schema, "required": []}, {key: value})

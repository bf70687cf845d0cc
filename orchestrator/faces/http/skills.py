"""Skills: save and prove one, look at it, approve it, run it, retire it."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

from aiohttp import web
from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from orchestrator.domain.errors import SkillNotFound
from orchestrator.domain.execution import Check, Language
from orchestrator.domain.skills import BUILT_IN, MAX_EXAMPLES, MAX_TOOLS
from orchestrator.faces.bodies import Body
from orchestrator.faces.context import CALLER, SERVICES
from orchestrator.faces.http.execute import answer_with, idempotency_key_of
from orchestrator.faces.http.requests import EXECUTION_ID, Query, parse_body
from orchestrator.faces.http.route import json_reply
from orchestrator.faces.skill_bodies import SkillList, saved_skill, skill_body, skill_detail
from orchestrator.service.executions import new_execution_id
from orchestrator.service.skill_saving import SkillDraft
from orchestrator.service.skills import suggestions


class Strict(Body):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=False, extra="forbid", strict=True)


class ExampleBody(Strict):
    """An input that works; the proof runs the skill with it, for real."""

    input: dict[str, Any]


class SaveSkill(Strict):
    """A skill to keep: a function, or a program whose parameters are named."""

    name: Annotated[str, Field(description="Its name, such as weekly_report.", examples=["open_orders"])]
    description: Annotated[str, Field(description="What it does, in one line.", examples=["Counts open orders."])]
    language: Annotated[Language | None, Field(strict=False)] = None
    code: Annotated[
        str | None,
        Field(description="`def run(input)` in Python, an `export default` function in TypeScript, or a program."),
    ] = None
    from_execution: Annotated[
        str | None, Field(description="The id of an execution, or `last`: its program is kept instead of `code`.")
    ] = None
    input: Annotated[dict[str, Any] | None, Field(description="JSON Schema of what it takes, an object.")] = None
    output: Annotated[dict[str, Any] | None, Field(description="JSON Schema of what it returns.")] = None
    tools: Annotated[
        list[str] | None,
        Field(max_length=MAX_TOOLS, description="What it calls, as SERVER/TOOL; by default what its code imports."),
    ] = None
    examples: Annotated[list[ExampleBody] | None, Field(max_length=MAX_EXAMPLES)] = None
    check: Annotated[
        Check,
        Field(
            strict=False,
            description="`strict` runs nothing that surely fails; `warn` runs it and explains what failed.",
        ),
    ] = Check.STRICT


class Approval(Strict):
    version: Annotated[str, Field(description="The version that is approved, and no other.")]


class RunSkill(Strict):
    input: Annotated[dict[str, Any], Field(default_factory=dict, description="What the skill is called with.")]
    timeout_seconds: Annotated[float | None, Field(gt=0, le=300)] = None


class ReplaySkill(Strict):
    version: str | None = None


class ReplayBody(Body):
    """Whether a skill still does what was recorded when it was proven."""

    name: str
    version: str
    same: bool
    problem: str | None


class RecordingBody(Body):
    """What the runs of a proof called, and what they got."""

    name: str
    version: str
    tools: list[dict[str, Any]]
    runs: list[dict[str, Any]]


class VersionQuery(Query):
    version: str | None = Field(None, description="By default the one that you would use.")


async def list_skills(request: web.Request, query: Query) -> web.Response:
    shelf = request.app[SERVICES].skills.shelf
    skills = shelf.listed(request[CALLER])
    return json_reply(
        SkillList(skills=[skill_body(skill) for skill in skills], suggestions=suggestions(skills, time.time()))
    )


async def save_skill(request: web.Request, query: Query) -> web.Response:
    body = await parse_body(request, SaveSkill)
    saved = await request.app[SERVICES].skills.saving.save(
        request[CALLER],
        SkillDraft(
            name=body.name,
            description=body.description,
            language=body.language,
            code=body.code,
            from_execution=body.from_execution,
            input=body.input,
            output=body.output,
            tools=tuple(body.tools) if body.tools is not None else None,
            examples=tuple(example.input for example in body.examples) if body.examples is not None else None,
            check=body.check,
        ),
    )
    return json_reply(saved_skill(saved), status=201)


async def get_skill(request: web.Request, query: VersionQuery) -> web.Response:
    shelf = request.app[SERVICES].skills.shelf
    found = shelf.find(request[CALLER], request.match_info["name"], query.version)
    return json_reply(await asyncio.to_thread(skill_detail, request[CALLER], found, shelf))


async def approve_skill(request: web.Request, query: Query) -> web.Response:
    body, shelf = await parse_body(request, Approval), request.app[SERVICES].skills.shelf
    return json_reply(skill_body(await shelf.approve(request[CALLER], request.match_info["name"], body.version)))


async def retire_skill(request: web.Request, query: VersionQuery) -> web.Response:
    shelf = request.app[SERVICES].skills.shelf
    return json_reply(skill_body(await shelf.retire(request[CALLER], request.match_info["name"], query.version)))


async def replay_skill(request: web.Request, query: Query) -> web.Response:
    body, skills = await parse_body(request, ReplaySkill), request.app[SERVICES].skills
    caller = request[CALLER]
    found = skills.shelf.find(caller, request.match_info["name"], body.version)
    replayed = await skills.drift.replay(caller, found)
    return json_reply(
        ReplayBody(name=found.name, version=found.version, same=replayed.problem is None, problem=replayed.problem)
    )


async def get_recording(request: web.Request, query: VersionQuery) -> web.Response:
    """Show what a proof recorded, to the author alone: it holds what tools returned to them."""
    skills, caller, name = request.app[SERVICES].skills, request[CALLER], request.match_info["name"]
    found = skills.shelf.find(caller, name, query.version)
    if found.author not in (caller.key_name, BUILT_IN):
        raise SkillNotFound(f"You have no recording of {name}.")
    document = (await skills.drift.recorded(found)).as_document()
    return json_reply(RecordingBody(name=found.name, version=found.version, **document))


async def run_skill(request: web.Request, query: Query) -> web.StreamResponse:
    services, caller, name = request.app[SERVICES], request[CALLER], request.match_info["name"]
    execution_id = request[EXECUTION_ID] = new_execution_id()
    async with services.executions.recording_refusal(caller, execution_id):
        body = await parse_body(request, RunSkill)
        key = idempotency_key_of(request)
        running = await services.skills.calls.start(caller, name, body.input, execution_id, body.timeout_seconds, key)
    request[EXECUTION_ID] = running.execution.id
    response, outcome = await answer_with(request, running)
    services.skills.calls.note_end(caller, name, outcome)
    return response

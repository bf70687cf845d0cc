"""Skills as the Skills extension serves them, to the SDK's client in both eras."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Literal

import mcp_types as types
import pytest
import yaml
from mcp import Client, MCPError
from mcp.server.lowlevel import Server

from orchestrator.domain.access import Caller
from orchestrator.domain.errors import OrchestratorError, SkillNotFound
from orchestrator.domain.execution import Language
from orchestrator.domain.skill_folders import Usage
from orchestrator.domain.skills import SkillContent, SkillState, SkillVersion
from orchestrator.faces.mcp.skill_extension import (
    EXTENSION,
    LISTED_SKILLS,
    PAGE_SKILLS,
    TEMPLATE,
    GetSkillParams,
    GetSkillResult,
    ListSkillsResult,
    SkillExtension,
)
from tests.support.mcp_clients import LEGACY, MODERN
from tests.support.samples import ADMIN, DEVELOPER

WEEKLY = SkillVersion(
    SkillContent(
        name="weekly_report",
        description='Counts "orders": — of a 週 # and --- more.',
        language=Language.PYTHON,
        code="def run(input):\r\n    return {'wörter': '🎉'}\n",
        input={"type": "object", "properties": {"week": {"type": "integer"}}},
        output={"type": "object"},
        tools=("postgres/execute_sql",),
        examples=({"week": 7},),
    ),
    author="ann",
    author_role="developer",
    state=SkillState.APPROVED,
    created_at=1.0,
)
WEEKLY_URI = "skill://weekly-report/SKILL.md"


def named(name: str) -> SkillVersion:
    return replace(WEEKLY, content=replace(WEEKLY.content, name=name), version="")


@dataclass
class Shelf:
    """Has skills for developers."""

    skills: Sequence[SkillVersion]

    def approved_for(self, caller: Caller) -> Sequence[SkillVersion]:
        return self.skills if caller.role == DEVELOPER.role else ()


class ListSkills(types.Request[types.PaginatedRequestParams, Literal["skills/list"]]):
    method: Literal["skills/list"] = "skills/list"
    params: types.PaginatedRequestParams


class GetSkill(types.Request[GetSkillParams, Literal["skills/get"]]):
    method: Literal["skills/get"] = "skills/get"
    params: GetSkillParams


class ApproveSkill(types.Request[GetSkillParams, Literal["skills/approve"]]):
    method: Literal["skills/approve"] = "skills/approve"
    params: GetSkillParams


@asynccontextmanager
async def connected(era: str, *skills: SkillVersion, caller: Caller = DEVELOPER) -> AsyncIterator[Client]:
    extension = SkillExtension(Shelf(skills))

    async def list_resources(context: Any, _: object) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=extension.resources(caller))

    async def read_resource(context: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        try:
            return types.ReadResourceResult(contents=[extension.read(caller, params.uri)])
        except OrchestratorError as error:
            raise MCPError(types.INVALID_PARAMS, error.message) from error

    server: Server[Any] = Server("test", on_list_resources=list_resources, on_read_resource=read_resource)
    extension.register(server, lambda _: caller)
    async with Client(server, mode=era) as client:
        yield client


async def listed(client: Client, cursor: str | None = None) -> ListSkillsResult:
    request = ListSkills(params=types.PaginatedRequestParams(cursor=cursor))
    return await client.session.send_request(request, ListSkillsResult)


async def got(client: Client, uri: str) -> GetSkillResult:
    return await client.session.send_request(GetSkill(params=GetSkillParams(uri=uri)), GetSkillResult)


async def text_at(client: Client, uri: str) -> str:
    (contents,) = (await client.read_resource(uri)).contents
    assert isinstance(contents, types.TextResourceContents)
    assert contents.uri == uri
    return contents.text


each_era = pytest.mark.parametrize("era", [LEGACY, MODERN])


async def test_the_server_declares_the_extension_beside_resources():
    async with connected("auto") as client:  # which asks the server; MODERN does not
        capabilities = client.server_capabilities
    assert capabilities.resources is not None
    assert capabilities.extensions == {EXTENSION: {}}


@each_era
async def test_every_file_that_is_read_has_the_digest_and_the_size_of_its_entry(era):
    async with connected(era, WEEKLY) as client:
        (skill,) = (await listed(client)).skills
        texts = {resource.uri: await text_at(client, resource.uri) for resource in skill.resources}
    for resource in skill.resources:
        data = texts[resource.uri].encode()
        assert resource.digest == f"sha256:{sha256(data).hexdigest()}"
        assert resource.size == len(data)
    assert texts["skill://weekly-report/scripts/weekly_report.py"] == WEEKLY.content.code
    assert list(texts) == [
        WEEKLY_URI,
        "skill://weekly-report/scripts/weekly_report.py",
        "skill://weekly-report/references/input.schema.json",
        "skill://weekly-report/references/output.schema.json",
    ]


@each_era
async def test_the_entry_has_the_front_matter_of_the_file(era):
    async with connected(era, WEEKLY) as client:
        skill = (await got(client, WEEKLY_URI)).skill
        text = await text_at(client, skill.uri)
    assert skill.frontmatter == yaml.safe_load(text.split("---")[1])
    assert skill.frontmatter["name"] == "weekly-report"
    assert skill.frontmatter["description"] == WEEKLY.content.description


@each_era
async def test_getting_a_skill_gives_the_entry_of_the_listing(era):
    async with connected(era, WEEKLY) as client:
        assert (await got(client, WEEKLY_URI)).skill == (await listed(client)).skills[0]


async def test_replies_are_complete_and_say_how_long_they_may_be_kept_by_whom():
    async with connected(MODERN, WEEKLY) as client:
        for result in (await listed(client), await got(client, WEEKLY_URI)):
            wire = result.model_dump(by_alias=True)
            assert (wire["resultType"], wire["ttlMs"], wire["cacheScope"]) == ("complete", 30_000, "private")


@each_era
async def test_all_pages_together_have_each_skill_once(era):
    names = [f"skill_{number:03}" for number in range(2 * PAGE_SKILLS + 1)]
    async with connected(era, *map(named, reversed(names))) as client:
        page = await listed(client)
        sizes, found = [len(page.skills)], list(page.skills)
        while page.next_cursor is not None:
            page = await listed(client, page.next_cursor)
            sizes.append(len(page.skills))
            found += page.skills
    assert sizes == [PAGE_SKILLS, PAGE_SKILLS, 1]
    assert [skill.frontmatter["metadata"]["skill"] for skill in found] == names


def test_a_page_goes_on_after_a_skill_that_is_gone_meanwhile():
    shelf = Shelf([named(f"skill_{number:03}") for number in range(PAGE_SKILLS + 1)])
    extension = SkillExtension(shelf)
    cursor = extension.listed(DEVELOPER).next_cursor
    shelf.skills = [skill for skill in shelf.skills if skill.name != cursor]
    assert [skill.uri for skill in extension.listed(DEVELOPER, cursor).skills] == [
        f"skill://skill-{PAGE_SKILLS:03}/SKILL.md"
    ]


@each_era
@pytest.mark.parametrize("cursor", ["", "Not one", "x" * 1000])
async def test_a_cursor_that_was_never_given_out_is_refused(era, cursor):
    async with connected(era, WEEKLY) as client:
        with pytest.raises(MCPError, match="`cursor` must be") as refused:
            await listed(client, cursor)
    assert refused.value.code == types.INVALID_PARAMS


UNKNOWN = [
    "skill://other/SKILL.md",
    "skill://weekly_report/SKILL.md",
    "skill://weekly-report",
    "skill://weekly-report/",
    "skill://weekly-report/skill.md",
    "skill://weekly-report/../weekly-report/SKILL.md",
    "weekly-report/SKILL.md",
    "execution://weekly-report/SKILL.md",
    "",
]


@each_era
@pytest.mark.parametrize("uri", [*UNKNOWN, "skill://weekly-report/scripts/weekly_report.py"])
async def test_getting_what_is_no_skill_fails_with_invalid_params(era, uri):
    async with connected(era, WEEKLY) as client:
        with pytest.raises(MCPError, match="No skill is served at") as refused:
            await got(client, uri)
    assert refused.value.code == types.INVALID_PARAMS


@each_era
@pytest.mark.parametrize("uri", UNKNOWN)
async def test_reading_what_is_no_file_of_a_skill_fails_with_invalid_params(era, uri):
    async with connected(era, WEEKLY) as client:
        with pytest.raises(MCPError, match="No file of a skill is served at") as refused:
            await client.read_resource(uri)
    assert refused.value.code == types.INVALID_PARAMS


@each_era
async def test_what_a_caller_may_not_see_is_as_if_it_were_not_there(era):
    async with connected(era, WEEKLY, caller=ADMIN) as client:
        assert (await listed(client)).skills == []
        assert (await client.list_resources()).resources == []
        for ask in (got, text_at):
            with pytest.raises(MCPError, match=f"served at {WEEKLY_URI}"):
                await ask(client, WEEKLY_URI)


@each_era
async def test_no_method_approves_a_skill(era):
    async with connected(era, WEEKLY) as client:
        with pytest.raises(MCPError) as refused:
            await client.session.send_request(ApproveSkill(params=GetSkillParams(uri=WEEKLY_URI)), GetSkillResult)
    assert refused.value.code == types.METHOD_NOT_FOUND


@each_era
async def test_a_client_without_the_extension_finds_the_files_among_the_resources(era):
    async with connected(era, WEEKLY) as client:
        resources = (await client.list_resources()).resources
        sizes = {resource.uri: len((await text_at(client, resource.uri)).encode()) for resource in resources}
    assert {resource.uri: resource.size for resource in resources} == sizes
    assert [resource.mime_type for resource in resources] == [
        "text/markdown",
        "text/x-python",
        "application/json",
        "application/json",
    ]
    assert resources[0].uri == WEEKLY_URI
    assert resources[0].name == "weekly-report"
    assert resources[0].description == WEEKLY.content.description


def test_of_many_skills_the_first_are_listed_as_resources_and_the_others_can_be_read():
    skills = [named(f"skill_{number:03}") for number in range(LISTED_SKILLS + 1)]
    extension = SkillExtension(Shelf(skills))
    resources = extension.resources(DEVELOPER)
    last = f"skill://skill-{LISTED_SKILLS:03}/SKILL.md"
    assert len(resources) == 4 * LISTED_SKILLS
    assert last not in {resource.uri for resource in resources}
    assert "skill_" in extension.read(DEVELOPER, last).text
    assert TEMPLATE.uri_template == "skill://{skill}/{+file}"


def test_a_new_version_is_served_at_once():
    shelf = Shelf([WEEKLY])
    extension = SkillExtension(shelf)
    before = extension.get(DEVELOPER, WEEKLY_URI)
    shelf.skills = [replace(WEEKLY, content=replace(WEEKLY.content, code="def run(input): ..."), version="")]
    after = extension.get(DEVELOPER, WEEKLY_URI)
    assert before.resources != after.resources
    assert extension.read(DEVELOPER, "skill://weekly-report/scripts/weekly_report.py").text == "def run(input): ..."
    shelf.skills = []
    with pytest.raises(SkillNotFound):
        extension.get(DEVELOPER, WEEKLY_URI)


def test_use_does_not_change_what_is_served():
    shelf = Shelf([WEEKLY])
    before = SkillExtension(shelf).get(DEVELOPER, WEEKLY_URI)
    shelf.skills = [replace(WEEKLY, uses=3, failures=1, last_used_at=9.0)]
    assert SkillExtension(shelf).get(DEVELOPER, WEEKLY_URI) == before


def test_the_instructions_have_the_typed_usages_of_the_languages():
    usage = Usage("weekly_report(*, week: int)", "from skills import weekly_report\nresult = weekly_report(week=7)")
    extension = SkillExtension(Shelf([WEEKLY]), lambda version: {Language.PYTHON: usage})
    assert "# weekly_report(*, week: int)\nfrom skills" in extension.read(DEVELOPER, WEEKLY_URI).text

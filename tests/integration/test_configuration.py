"""What a running daemon tells of its configuration, to whom, and what it never tells."""

from __future__ import annotations

import json
import shutil
from hashlib import sha256
from pathlib import Path

import pytest

from orchestrator.commands.held import ask
from tests.support.api import Api, eventually
from tests.support.installation import PROJECT, Installation

SECRET = "syt_nobody_may_read_this"


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    roles = tmp_path / "roles.json"
    shutil.copy(PROJECT / "roles.json", roles)
    return Installation.create(
        tmp_path,
        roles_file=roles,
        warm_floor=0,
        warm_ceiling=0,
        matrix_homeserver="http://127.0.0.1:9",
        matrix_token=SECRET,
        servers_file=tmp_path / "servers.json",
    )


async def test_the_daemon_tells_what_it_holds_and_follows_its_files_but_tells_no_secret(
    installation: Installation,
) -> None:
    roles_file = installation.settings.roles_file
    async with installation.run() as api:
        status, told = await api.get("/config")
        assert status == 200
        assert told["rolesFile"] == {"sha256": sha256(roles_file.read_bytes()).hexdigest(), "problem": None}
        assert told["serversFile"] == {"sha256": None, "problem": None}
        assert told["roles"]["developer"]["keys"] == ["code-executor-developer"]
        assert told["settings"]["matrix_token"] == {"value": "********", "given": True}
        everything = json.dumps(told)
        assert SECRET not in everything
        assert not [key for key in installation.keys.values() if key in everything]

        async def takes_up() -> bool:
            _, now = await api.get("/config")
            return now["roles"]["developer"]["servers"] == []

        newer = json.loads(roles_file.read_text())
        newer["roles"]["developer"]["servers"] = []
        fresh = roles_file.with_suffix(".new")
        fresh.write_text(json.dumps(newer))
        fresh.replace(roles_file)  # as editors do
        await eventually(takes_up)
        here = installation.settings.model_copy(
            update={"url": api.url, "key": installation.settings.key, "secrets_dir": installation.settings.secrets_dir}
        )
        held = await ask(here)
        assert held.other_roles(roles_file) is None
        roles_file.write_text("{")
        await eventually(lambda: complains(api))
        assert await takes_up(), "a mistake leaves the roles as they were"


async def complains(api: Api) -> bool:
    _, told = await api.get("/config")
    return "line 1" in (told["rolesFile"]["problem"] or "")


async def test_only_a_role_that_sees_all_may_ask(installation: Installation) -> None:
    async with installation.run() as api:
        async with Api.connect(api.url, installation.keys["developer"]) as developer:
            status, problem = await developer.get("/config")
        assert (status, problem["code"]) == (403, "not_for_your_role")
        async with Api.connect(api.url, "nobody") as stranger:
            assert (await stranger.get("/config"))[0] == 401

"""Signing in to the console over HTTP."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import aiohttp
import pytest

from orchestrator.domain.access import AccessBook, KeyHash, Role, hash_key
from orchestrator.faces.auth import Authenticator
from orchestrator.service.events import Events
from orchestrator.service.sign_ins import SignIns
from tests.support.fake_sign_ins import FakeSignIns
from tests.support.http_face import http_face, services
from tests.support.samples import record

ROLE = Role("admin", frozenset({"*"}), sees_all_executions=True)
KEY = {"Authorization": "Bearer the-key"}


class Keys:
    def __init__(self) -> None:
        self.book = AccessBook({"admin": ROLE}, {"ops": "admin"}, (KeyHash("ops", hash_key("the-key")),))

    def rotate(self) -> None:
        self.book = replace(self.book, key_hashes=(KeyHash("ops", hash_key("another")),))


class Place:
    def __init__(self, client: aiohttp.ClientSession, keys: Keys, events: Events) -> None:
        self.client, self.keys, self.events = client, keys, events

    async def ask(self, method, path, headers=None, **options):
        async with self.client.request(method, path, headers=headers, **options) as response:
            return response.status, await response.json() if response.content_length else None

    async def sign_in(self) -> dict[str, str]:
        _, made = await self.ask("POST", "/console/codes", KEY)
        status, opened = await self.ask("POST", "/console/sessions", json={"code": made["code"]})
        assert status == 201
        return {"Authorization": f"Bearer {opened['token']}"}


@pytest.fixture
async def place():
    keys, events = Keys(), Events()
    sign_ins = SignIns(keys, FakeSignIns())
    made_up = services(authenticator=Authenticator(keys, sign_ins), sign_ins=sign_ins, events=events)
    async with http_face(made_up) as url, aiohttp.ClientSession(url) as client:
        yield Place(client, keys, events)


async def test_a_link_signs_in_once(place):
    _, made = await place.ask("POST", "/console/codes", KEY)
    assert made["expiresInSeconds"] == 60
    status, opened = await place.ask("POST", "/console/sessions", json={"code": made["code"]})
    assert (status, opened["caller"], opened["role"]) == (201, "ops", "admin")
    status, problem = await place.ask("POST", "/console/sessions", json={"code": made["code"]})
    assert (status, problem["code"]) == (401, "code_invalid")


async def test_a_session_is_who_made_it_and_says_when_it_ends(place):
    status, found = await place.ask("GET", "/whoami", await place.sign_in())
    assert (status, found["caller"]) == (200, "ops")
    assert found["sessionExpiresAt"]
    assert (await place.ask("GET", "/whoami", KEY))[1]["sessionExpiresAt"] is None


@pytest.mark.parametrize("approves", [True, False])
async def test_whoever_asks_learns_whether_its_role_approves_skills(place, approves):
    place.keys.book = replace(place.keys.book, roles={"admin": replace(ROLE, approves_skills=approves)})
    assert (await place.ask("GET", "/whoami", KEY))[1]["approvesSkills"] is approves


@pytest.mark.parametrize("body", [{"json": {}}, {}, {"data": b""}])
async def test_a_pasted_key_signs_in(place, body):
    status, opened = await place.ask("POST", "/console/sessions", KEY, **body)
    assert (status, opened["caller"]) == (201, "ops")
    assert "the-key" not in opened["token"]


@pytest.mark.parametrize("path", ["/console/codes", "/console/sessions"])
async def test_a_session_makes_no_other_session(place, path):
    status, problem = await place.ask("POST", path, await place.sign_in(), json={})
    assert (status, problem["code"]) == (403, "not_for_sessions")


async def test_signing_out_ends_the_session(place):
    session = await place.sign_in()
    assert (await place.ask("DELETE", "/console/sessions", session))[0] == 204
    status, problem = await place.ask("GET", "/whoami", session)
    assert (status, problem["detail"]) == (401, "The session has ended.")


async def test_signing_out_with_a_key_takes_nothing_away(place):
    assert (await place.ask("DELETE", "/console/sessions", KEY))[0] == 204
    assert (await place.ask("GET", "/whoami", KEY))[0] == 200


async def test_a_rotated_key_ends_its_sessions_and_what_they_listen_to(place):
    session = await place.sign_in()
    async with place.client.get("/events", headers=session) as stream:
        assert stream.status == 200
        place.events.tell_execution(record("e1"))
        assert b"e1" in await asyncio.wait_for(stream.content.readuntil(b"\n\n"), 5)
        place.keys.rotate()
        assert await asyncio.wait_for(stream.content.read(), 5) == b""
    assert (await place.ask("GET", "/whoami", session))[0] == 401


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 422, "invalid_request"),
        (b"{}", 422, "invalid_request"),
        (b'{"code": null}', 422, "invalid_request"),
        (b'{"code": 3}', 422, "invalid_request"),
        (b'{"role": "admin"}', 422, "invalid_request"),
        (b'{"code": "' + b"x" * 300 + b'"}', 422, "invalid_request"),
        (b'{"code": "guess"}', 401, "code_invalid"),
        (b"[", 400, "malformed_json"),
        (b"[" * 3000, 400, "malformed_json"),
        (b"\xff", 400, "malformed_json"),
        (b'{"code": "' + b"x" * 5000 + b'"}', 413, "code_too_large"),
    ],
)
async def test_what_is_no_code_is_refused_in_words(place, body, status, code):
    found, problem = await place.ask("POST", "/console/sessions", data=body)
    assert (found, problem["code"]) == (status, code)


async def test_a_body_without_a_length_is_not_read(place):
    async def endless():
        while True:
            yield b" "
            await asyncio.sleep(0)

    assert (await place.ask("POST", "/console/sessions", data=endless()))[0] == 413


async def test_a_page_of_another_port_gets_no_session(place):
    _, made = await place.ask("POST", "/console/codes", KEY)
    origin = {"Origin": "http://127.0.0.1:1"}
    status, problem = await place.ask("POST", "/console/sessions", origin, json={"code": made["code"]})
    assert (status, problem["code"]) == (403, "foreign_origin")


async def test_a_wrong_key_is_told_as_such(place):
    status, problem = await place.ask("POST", "/console/sessions", {"Authorization": "Bearer wrong"}, json={})
    assert (status, problem["detail"]) == (401, "The key is not known.")


async def test_a_code_needs_a_key(place):
    assert (await place.ask("POST", "/console/codes"))[0] == 401

"""Chat on a real homeserver: over HTTP, and from inside a sandbox."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.adapters.matrix import MatrixHomeserver, Patience
from orchestrator.domain.chat import MAX_TEXT_BYTES
from orchestrator.domain.errors import ChatRateLimited, ChatRefused
from tests.support.api import Api
from tests.support.installation import Installation
from tests.support.synapse import Person, Relay, Synapse

pytestmark = pytest.mark.timeout(600)  # the first run installs the homeserver

TEAM, SECRET = "#team:chat.test", "#secret:chat.test"
ROLES = {
    "roles": {
        "admin": {"servers": ["*"], "chatRooms": ["*"], "keys": ["code-executor-admin"]},
        "developer": {"servers": ["postgres"], "chatRooms": [TEAM], "keys": ["code-executor-developer"]},
    }
}


@dataclass
class World:
    synapse: Synapse
    ann: Person
    account: Person
    team: str
    secret: str
    directory: Path

    async def fresh_room(self) -> str:
        room = await self.ann.create_room(None, self.account)
        await self.account.join(room)
        return room

    def installation(self, name: str, url: str) -> Installation:
        directory = self.directory / name
        directory.mkdir()
        (directory / "roles.json").write_text(json.dumps(ROLES))
        return Installation.create(
            directory,
            roles_file=directory / "roles.json",
            matrix_homeserver=url,
            matrix_token=self.account.token,
            matrix_default_room=TEAM,
        )

    @asynccontextmanager
    async def stopped(self) -> AsyncIterator[None]:
        await self.synapse.stop()
        try:
            yield
        finally:
            await self.synapse.start()


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with Synapse.running(tmp_path_factory.mktemp("synapse")) as synapse:
        ann, account = await synapse.register("ann", admin=True), await synapse.register("account")
        team = await ann.create_room("team", account)  # invited only: the daemon accepts for rooms that are named to it
        secret = await ann.create_room("secret", account)
        await account.join(secret)
        yield World(synapse, ann, account, team, secret, tmp_path_factory.mktemp("daemons"))


@pytest.fixture(scope="module")
async def installed(world: World) -> Installation:
    return world.installation("ordinary", world.synapse.url)


@pytest.fixture(scope="module")
async def admin(installed: Installation) -> AsyncIterator[Api]:
    async with installed.run() as api:
        yield api


@pytest.fixture(scope="module")
async def developer(admin: Api, installed: Installation) -> AsyncIterator[Api]:
    async with admin.as_caller(installed.keys["developer"]) as api:
        yield api


@pytest.fixture
async def relay(world: World) -> AsyncIterator[Relay]:
    async with Relay(world.synapse.port).running() as relay:
        yield relay


async def send(api: Api, **body: str) -> dict:
    status, reply = await api.post("/chat/send", body)
    assert status == 200, reply
    return reply


async def read(api: Api, **query: str | int) -> dict:
    status, reply = await api.get("/chat/read", params=query)
    assert status == 200, reply
    return reply


def texts(page: dict) -> list[str]:
    return [message["text"] for message in page["messages"]]


async def test_a_message_to_the_default_room_is_heard_there_as_plain_text(world, admin):
    sent = await send(admin, text="Deployed <b>1.2</b> for @room")
    heard = (await world.ann.hears(world.team))[-1]
    assert sent["room"] == TEAM
    assert heard == {"msgtype": "m.text", "body": "Deployed <b>1.2</b> for @room", "m.mentions": {}}


async def test_what_others_say_is_read_with_sender_and_time(world, admin):
    room = await world.fresh_room()
    message_id = await world.ann.say(room, "hello")
    (message,) = (await read(admin, room=room))["messages"]
    assert (message["id"], message["sender"], message["text"]) == (message_id, world.ann.id, "hello")
    assert message["kind"] == "text"
    assert message["sentAt"].endswith("+00:00")


async def test_a_second_look_at_once_shows_what_was_said_in_between(world, admin):
    room = await world.fresh_room()
    await world.ann.say(room, "one")
    assert texts(await read(admin, room=room)) == ["one"]
    await world.ann.say(room, "two")
    assert texts(await read(admin, room=room)) == ["one", "two"]


async def test_paging_back_shows_each_message_once_and_ends(world, admin):
    room = await world.fresh_room()
    said = [f"message {number}" for number in range(25)]
    for text in said:
        await world.ann.say(room, text)
    page = await read(admin, room=room, limit=10)
    pages = [texts(page)]
    while page["before"] is not None:
        page = await read(admin, room=room, limit=10, before=page["before"])
        pages.insert(0, texts(page))
    assert [text for page_texts in pages for text in page_texts] == said
    assert [len(page_texts) for page_texts in pages] == [5, 10, 10]


async def test_since_shows_only_what_came_later(world, admin):
    room = await world.fresh_room()
    await world.ann.say(room, "old")
    since = (await read(admin, room=room))["since"]
    assert texts(await read(admin, room=room, since=since)) == []
    await world.ann.say(room, "new")
    later = await read(admin, room=room, since=since)
    assert texts(later) == ["new"]
    assert later["before"] is None
    assert texts(await read(admin, room=room, since=later["since"])) == []


async def test_paging_back_from_since_ends_where_the_reader_was(world, admin):
    room = await world.fresh_room()
    await world.ann.say(room, "old")
    since = (await read(admin, room=room))["since"]
    said = [f"new {number}" for number in range(12)]
    for text in said:
        await world.ann.say(room, text)
    page = await read(admin, room=room, since=since, limit=5)
    assert texts(page) == said[7:]
    found = texts(page)
    while page["before"] is not None:
        page = await read(admin, room=room, before=page["before"], limit=5)
        found = texts(page) + found
    assert found == said


async def test_who_lists_the_members(world, admin):
    status, reply = await admin.get("/chat/who", params={"room": SECRET})
    assert status == 200
    assert {member["id"] for member in reply["members"]} == {world.ann.id, world.account.id}
    assert reply["total"] == 2


async def test_a_room_that_the_role_does_not_have_is_denied_with_its_rule_and_hears_nothing(world, developer):
    for room in (SECRET, world.secret):
        status, reply = await developer.post("/chat/send", {"room": room, "text": "let me in"})
        assert (status, reply["code"]) == (403, "room_denied")
        assert "role developer" in reply["detail"]
        assert TEAM in reply["detail"]
        assert "not sent" in reply["detail"]
    for path in ("/chat/read", "/chat/who"):
        status, reply = await developer.get(path, params={"room": world.secret})
        assert (status, reply["code"]) == (403, "room_denied")
    assert "let me in" not in await world.ann.texts(world.secret)


async def test_an_allowed_room_is_the_same_room_under_its_other_name(world, developer):
    await send(developer, room=world.team, text="by id")
    await send(developer, room=TEAM, text="by alias")
    assert (await world.ann.texts(world.team))[-2:] == ["by id", "by alias"]


async def test_a_room_that_does_not_exist_is_told_so(admin):
    status, reply = await admin.post("/chat/send", {"room": "#nowhere:chat.test", "text": "hello?"})
    assert (status, reply["code"]) == (404, "room_not_found")
    assert "not sent" in reply["detail"]


async def test_a_caller_cannot_make_the_account_enter_a_public_room(world, admin):
    created = await world.ann.matrix("POST", "/createRoom", {"preset": "public_chat"})
    status, reply = await admin.post("/chat/send", {"room": created["room_id"], "text": "hello?"})
    assert (status, reply["code"]) == (502, "chat_refused")
    assert await world.ann.texts(created["room_id"]) == []


@pytest.mark.parametrize("path", ["/chat/send", "/chat/read", "/chat/who"])
async def test_chat_needs_a_key(admin, path):
    async with admin.as_caller("wrong") as stranger:
        status, reply = await (stranger.post(path, {"text": "x"}) if path == "/chat/send" else stranger.get(path))
    assert (status, reply["code"]) == (401, "unauthenticated")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 422, "invalid_request"),
        ({"text": 5}, 422, "invalid_request"),
        ({"text": "x", "html": "<b>"}, 422, "invalid_request"),
        ({"text": " \n"}, 422, "invalid_arguments"),
        ({"text": "x", "room": "team"}, 422, "invalid_arguments"),
        ({"text": "x" * (MAX_TEXT_BYTES + 1)}, 422, "invalid_arguments"),
    ],
)
async def test_a_message_that_makes_no_sense_is_refused(admin, body, status, code):
    answered, reply = await admin.post("/chat/send", body)
    assert (answered, reply["code"]) == (status, code)


async def test_the_largest_message_fits_into_an_event(world, admin):
    room = await world.fresh_room()
    largest = "é" * (MAX_TEXT_BYTES // 2 - 1)
    await send(admin, room=room, text=largest)
    assert await world.ann.texts(room) == [largest]


async def test_control_characters_are_made_visible_both_ways(world, admin):
    room = await world.fresh_room()
    await send(admin, room=room, text="a\x1b[31mred\x00\r\nb\tc")
    await world.ann.say(room, "\x1b]0;title\x07")
    safe = "a␛[31mred␀\nb\tc"
    assert (await world.ann.texts(room))[0] == safe
    assert texts(await read(admin, room=room)) == [safe, "␛]0;title␇"]


async def test_the_same_transaction_posts_once_and_another_text_is_not_swallowed(world, admin):
    room = await world.fresh_room()
    first = await send(admin, room=room, text="once", transactionId="1")
    again = await send(admin, room=room, text="once", transactionId="1")
    other = await send(admin, room=room, text="other", transactionId="1")
    assert first == again
    assert other["messageId"] != first["messageId"]
    assert await world.ann.texts(room) == ["once", "other"]


async def test_with_the_homeserver_down_the_caller_is_told_that_nothing_was_sent(world, admin):
    room = await world.fresh_room()
    async with world.stopped():
        status, reply = await admin.post("/chat/send", {"room": room, "text": "lost?"})
        assert (status, reply["code"]) == (503, "chat_unavailable")
        assert "was not sent" in reply["detail"]
        status, reply = await admin.get("/chat/read", params={"room": room})
        assert (status, reply["code"]) == (503, "chat_unavailable")
        _, health = await admin.get("/health")
        assert health["upstreams"]["chat"].startswith("down: ")
    assert await world.ann.texts(room) == []
    await send(admin, room=room, text="lost?")
    assert await world.ann.texts(room) == ["lost?"]
    _, health = await admin.get("/health")
    assert health["upstreams"]["chat"] == "connected"


async def test_an_answer_that_is_lost_once_costs_no_second_message(world, relay):
    room = await world.fresh_room()
    homeserver = MatrixHomeserver(relay.url, world.account.token)
    relay.answers_to_swallow = 1
    try:
        await homeserver.send(room, "exactly once", "t1")
    finally:
        await homeserver.close()
    assert relay.swallowed == 1
    assert await world.ann.texts(room) == ["exactly once"]


async def test_when_no_answer_arrives_the_caller_can_send_again_without_doubling(world, relay):
    room = await world.fresh_room()
    async with world.installation("behind-a-relay", relay.url).run() as api:
        relay.answers_to_swallow = 1000
        status, reply = await api.post("/chat/send", {"room": room, "text": "did it?", "transactionId": "mine"})
        assert (status, reply["code"]) == (504, "chat_unconfirmed")
        assert "may have been sent" in reply["detail"]
        assert "transactionId mine" in reply["detail"]
        relay.answers_to_swallow = 0
        sent = await send(api, room=room, text="did it?", transactionId="mine")
    assert await world.ann.texts(room) == ["did it?"]
    assert sent["messageId"]


async def test_a_rate_limit_is_waited_for_when_short_and_told_when_not(world):
    room = await world.fresh_room()
    hasty = await world.synapse.register("hasty")
    await world.ann.matrix("POST", f"/rooms/{room}/invite", {"user_id": hasty.id})
    await hasty.join(room)
    path = f"/_synapse/admin/v1/users/{hasty.id}/override_ratelimit"
    await world.ann.request("POST", path, {"messages_per_second": 1, "burst_count": 1})
    patient = MatrixHomeserver(world.synapse.url, hasty.token)
    impatient = MatrixHomeserver(world.synapse.url, hasty.token, Patience(attempts=1))
    try:
        for number in range(3):
            await patient.send(room, f"patient {number}", f"p{number}")
        sending = [impatient.send(room, f"impatient {number}", f"i{number}") for number in range(10)]
        with pytest.raises(ChatRateLimited) as limited:
            await asyncio.gather(*sending)
    finally:
        await patient.close()
        await impatient.close()
    assert 1 <= limited.value.retry_after_seconds <= 10
    assert (await world.ann.texts(room))[:3] == ["patient 0", "patient 1", "patient 2"]


async def test_a_wrong_token_is_a_clear_error(world):
    homeserver = MatrixHomeserver(world.synapse.url, "wrong")
    try:
        with pytest.raises(ChatRefused, match="CODE_EXECUTOR_MATRIX_TOKEN"):
            await homeserver.members(world.team)
    finally:
        await homeserver.close()


async def test_without_configuration_chat_says_how_to_configure_it_and_offers_no_tools(api):
    for answer in (api.post("/chat/send", {"text": "x"}), api.get("/chat/read"), api.get("/chat/who")):
        status, reply = await answer
        assert (status, reply["code"]) == (501, "chat_not_configured")
        assert "CODE_EXECUTOR_MATRIX_HOMESERVER" in reply["detail"]
    _, tools = await api.get("/tools")
    assert "chat" not in tools["tools"]


async def test_the_tools_of_chat_are_listed_found_and_described(developer):
    _, listing = await developer.get("/tools")
    assert listing["tools"]["chat"] == "send read who"
    _, found = await developer.get("/tools/search", params={"q": "post a message to a chat room"})
    assert (found["tools"][0]["server"], found["tools"][0]["name"]) == ("chat", "send")
    _, info = await developer.get("/tools/info/chat/send")
    assert info["resultShape"] == "declared"
    assert "text: string" in info["typescript"]["signature"]


async def test_a_python_program_talks_through_the_gateway(world, developer):
    reply = await developer.python(
        "from servers.chat import send, read, who\n"
        "sent = send(text='from python')\n"
        "page = read(limit=1)\n"
        "print(page['messages'][0]['text'], page['messages'][0]['id'] == sent['messageId'])\n"
        "print([member['id'] for member in who()['members']])\n"
    )
    assert reply["outcome"] == "completed", reply["stderr"]
    assert reply["output"] == f"from python True\n{sorted([world.ann.id, world.account.id])}\n"
    assert [(call["tool"], call["outcome"]) for call in reply["toolCalls"]] == [
        ("send", "done"),
        ("read", "done"),
        ("who", "done"),
    ]
    assert (await world.ann.texts(world.team))[-1] == "from python"


async def test_a_typescript_program_talks_through_the_gateway(world, developer):
    reply = await developer.typescript(
        "import { send, read } from '/workspace/servers/chat/index.js';\n"
        "const sent = await send({ text: 'from typescript' });\n"
        "const page = await read({ limit: 1 });\n"
        "console.log(page.messages[0].text, page.messages[0].id === sent.messageId);\n"
    )
    assert reply["outcome"] == "completed", reply["stderr"]
    assert reply["output"] == "from typescript true\n"
    assert (await world.ann.texts(world.team))[-1] == "from typescript"


async def test_a_program_has_the_rooms_of_its_role_and_no_others(world, developer):
    reply = await developer.python(
        "from servers.chat import send\n"
        "from servers.errors import ToolDenied\n"
        "try:\n"
        f"    send(room={world.secret!r}, text='smuggled')\n"
        "except ToolDenied as error:\n"
        "    print(error.code, 'role developer' in str(error))\n"
    )
    assert reply["output"] == "room_denied True\n", reply["stderr"]
    assert [call["outcome"] for call in reply["toolCalls"]] == ["denied"]
    assert "smuggled" not in await world.ann.texts(world.secret)


async def test_a_program_learns_that_the_homeserver_is_down(world, developer):
    async with world.stopped():
        reply = await developer.python(
            "from servers.chat import send\n"
            "from servers.errors import ToolUnavailable\n"
            "try:\n"
            "    send(text='lost?')\n"
            "except ToolUnavailable as error:\n"
            "    print(error.code, 'was not sent' in str(error))\n"
        )
    assert reply["output"] == "chat_unavailable True\n", reply["stderr"]
    assert [call["outcome"] for call in reply["toolCalls"]] == ["unavailable"]


async def test_two_senders_at_once_lose_nothing(world, admin):
    room = await world.fresh_room()
    said = {f"message {number}" for number in range(20)}
    async with asyncio.timeout(60):
        await asyncio.gather(*(send(admin, room=room, text=text) for text in said))
    assert sorted(await world.ann.texts(room)) == sorted(said)

from __future__ import annotations

import pytest

from orchestrator.domain.access import Role
from orchestrator.domain.chat import MAX_LISTED_MEMBERS, MAX_TEXT_BYTES, Member, printable, size_in_event
from orchestrator.domain.errors import (
    ChatNotConfigured,
    ChatRateLimited,
    ChatRefused,
    ChatUnavailable,
    ChatUnconfirmed,
    InvalidArguments,
    RoomDenied,
    RoomNotFound,
    ToolDenied,
)
from orchestrator.service.chat import Chat
from tests.unit.adapters.homeserver import FakeHomeserver

ANYWHERE = Role("admin", frozenset({"*"}), chat_rooms=frozenset({"*"}))
TEAM_ONLY = Role("developer", frozenset(), chat_rooms=frozenset({"#team:x"}))
MUTE = Role("guest", frozenset({"*"}))


@pytest.fixture
def homeserver() -> FakeHomeserver:
    return FakeHomeserver()


@pytest.fixture
def chat(homeserver: FakeHomeserver) -> Chat:
    return Chat(homeserver, "#team:x")


async def test_a_message_goes_to_the_default_room_unless_one_is_named(chat, homeserver):
    assert (await chat.send(ANYWHERE, None, "one")).room == "#team:x"
    assert (await chat.send(ANYWHERE, "!other:x", "two")).room == "!other:x"
    assert homeserver.posted == [("!team:x", "one"), ("!other:x", "two")]


async def test_without_a_default_room_one_must_be_named(homeserver):
    with pytest.raises(InvalidArguments, match="CODE_EXECUTOR_MATRIX_DEFAULT_ROOM"):
        await Chat(homeserver, None).send(ANYWHERE, None, "x")
    assert homeserver.posted == []


@pytest.mark.parametrize("room", ["team", "@ann:x", "!", "!a b", "#a\nb", "!" + "x" * 255, "*"])
async def test_what_is_no_room_is_refused(chat, homeserver, room):
    with pytest.raises(InvalidArguments, match="room"):
        await chat.read(ANYWHERE, room)
    assert homeserver.asked == []


async def test_an_unconfigured_chat_says_how_to_configure_it_in_one_sentence():
    chat = Chat(None, None)
    assert not chat.configured
    for asked in (chat.send(ANYWHERE, None, "x"), chat.read(ANYWHERE, None), chat.who(ANYWHERE, None)):
        with pytest.raises(ChatNotConfigured, match="CODE_EXECUTOR_MATRIX_TOKEN") as error:
            await asked
        assert error.value.message.count("Chat is not configured") == 1


@pytest.mark.parametrize("room", ["#other:x", "!other:x", "#nowhere:x"])
async def test_a_room_that_the_role_does_not_list_is_denied_with_role_and_rule(chat, homeserver, room):
    with pytest.raises(
        RoomDenied, match=r"Role developer may not use room .*: chatRooms of role developer has only #team"
    ):
        await chat.send(TEAM_ONLY, room, "x")
    assert homeserver.posted == []


async def test_a_listed_room_is_allowed_under_both_of_its_names(chat, homeserver):
    await chat.send(TEAM_ONLY, "!team:x", "by id")
    await chat.send(TEAM_ONLY, "#team:x", "by alias")
    by_id = Role("developer", frozenset(), chat_rooms=frozenset({"!team:x"}))
    await chat.send(by_id, "#team:x", "by alias, listed by id")
    assert [room for room, _ in homeserver.posted] == ["!team:x"] * 3


async def test_ids_are_compared_without_asking_the_homeserver(chat, homeserver):
    by_id = Role("developer", frozenset(), chat_rooms=frozenset({"!team:x"}))
    with pytest.raises(RoomDenied):
        await chat.who(by_id, "!other:x")
    assert homeserver.asked == []


async def test_a_role_without_rooms_is_denied_every_room(chat):
    with pytest.raises(RoomDenied, match="chatRooms of role guest is empty"):
        await chat.read(MUTE, None)


async def test_a_denied_tool_is_denied_here_too(chat, homeserver):
    reader = Role("reader", frozenset(), denied_tools=("chat/send",), chat_rooms=frozenset({"*"}))
    await chat.read(reader, None)
    with pytest.raises(ToolDenied, match="chat/send"):
        await chat.send(reader, None, "x")
    assert homeserver.posted == []


async def test_the_account_enters_only_rooms_that_an_operator_named(chat, homeserver):
    await chat.read(ANYWHERE, "!other:x")
    assert homeserver.joined == []
    await chat.read(ANYWHERE, None)
    await chat.read(TEAM_ONLY, "#team:x")
    assert homeserver.joined == ["#team:x"]


@pytest.mark.parametrize("fault", [ChatRefused("no"), RoomNotFound("no")])
async def test_after_a_refusal_the_account_tries_to_enter_again(chat, homeserver, fault):
    await chat.read(TEAM_ONLY, None)
    homeserver.fault = fault
    with pytest.raises(type(fault)):
        await chat.read(TEAM_ONLY, None)
    homeserver.fault = None
    await chat.read(TEAM_ONLY, None)
    assert homeserver.joined == ["#team:x", "#team:x"]


@pytest.mark.parametrize("text", ["", "  \n\t", "x" * MAX_TEXT_BYTES, '"' * (MAX_TEXT_BYTES // 2)])
async def test_a_text_that_is_empty_or_too_large_is_refused(chat, homeserver, text):
    with pytest.raises(InvalidArguments, match="not sent"):
        await chat.send(ANYWHERE, None, text)
    assert homeserver.posted == []


async def test_the_largest_text_is_accepted(chat, homeserver):
    largest = "x" * (MAX_TEXT_BYTES - 2)
    assert size_in_event(largest) == MAX_TEXT_BYTES
    await chat.send(ANYWHERE, None, largest)
    assert homeserver.posted == [("!team:x", largest)]


@pytest.mark.parametrize(
    ("raw", "safe"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("\x1b[2J\x00\x07", "␛[2J␀␇"),
        ("\x7f\x85\x9b31m", "␡\ufffd\ufffd31m"),
        ("lone \ud800 surrogate", "lone \ufffd surrogate"),
        ("жизнь 生命 🚀 é", "жизнь 生命 🚀 é"),
    ],
)
def test_control_characters_become_visible_and_other_text_stays(raw, safe):
    assert printable(raw) == safe


async def test_a_transaction_is_the_same_only_for_the_same_role_room_and_text(chat, homeserver):
    team_bot = Role("bot", frozenset(), chat_rooms=frozenset({"*"}))
    for role, room, text in (
        (ANYWHERE, None, "a"),
        (ANYWHERE, None, "a"),
        (ANYWHERE, None, "b"),
        (ANYWHERE, "!other:x", "a"),
        (team_bot, None, "a"),
    ):
        await chat.send(role, room, text, "t")
    first, again, *others = homeserver.transactions
    assert first == again
    assert len({first, *others}) == 4


async def test_each_message_without_a_transaction_is_a_new_one(chat, homeserver):
    sent = [await chat.send(ANYWHERE, None, "same") for _ in range(2)]
    assert len({message.transaction_id for message in sent}) == 2
    assert len(set(homeserver.transactions)) == 2


@pytest.mark.parametrize("fault", [ChatUnavailable("Down."), ChatRefused("No."), ChatRateLimited("Wait.")])
async def test_whoever_could_not_send_is_told_that_nothing_was_sent(chat, homeserver, fault):
    homeserver.fault = fault
    with pytest.raises(type(fault), match=rf"^The message was not sent\. {fault.message}"):
        await chat.send(ANYWHERE, None, "x")


async def test_the_time_to_wait_reaches_the_caller(chat, homeserver):
    homeserver.fault = ChatRateLimited("Wait.", retry_after_seconds=7)
    with pytest.raises(ChatRateLimited) as limited:
        await chat.send(ANYWHERE, None, "x")
    assert limited.value.retry_after_seconds == 7


async def test_in_doubt_the_caller_gets_the_transaction_to_repeat(chat, homeserver):
    homeserver.fault = ChatUnconfirmed("It broke.")
    with pytest.raises(ChatUnconfirmed, match=r"may have been sent\. It broke\..* transactionId ([0-9a-f]{16});"):
        await chat.send(ANYWHERE, None, "x")
    with pytest.raises(ChatUnconfirmed, match="transactionId mine;"):
        await chat.send(ANYWHERE, None, "x", "mine")


async def test_the_problem_is_remembered_until_the_homeserver_answers_again(chat, homeserver):
    homeserver.fault = ChatUnavailable("Down.")
    with pytest.raises(ChatUnavailable):
        await chat.read(ANYWHERE, None)
    assert chat.problem == "Down"
    homeserver.fault = None
    await chat.read(ANYWHERE, None)
    assert chat.problem is None


async def test_since_reads_on_before_reads_back_and_both_are_a_mistake(chat, homeserver):
    await chat.read(ANYWHERE, None, 5)
    await chat.read(ANYWHERE, None, 5, since="s")
    await chat.read(ANYWHERE, None, 5, before="b")
    assert homeserver.reads == [("newest", 5, None), ("newest", 5, "s"), ("older", 5, "b")]
    with pytest.raises(InvalidArguments, match="not both"):
        await chat.read(ANYWHERE, None, 5, since="s", before="b")


@pytest.mark.parametrize("limit", [0, -1, 101])
async def test_a_limit_out_of_range_is_refused(chat, limit):
    with pytest.raises(InvalidArguments, match="limit"):
        await chat.read(ANYWHERE, None, limit)


async def test_a_crowd_is_counted_but_not_listed_whole(chat, homeserver):
    homeserver.members_of_team = tuple(Member(f"@{number}:x", "") for number in range(MAX_LISTED_MEMBERS + 1))
    crowd = await chat.who(ANYWHERE, None)
    assert (len(crowd.members), crowd.total) == (MAX_LISTED_MEMBERS, MAX_LISTED_MEMBERS + 1)

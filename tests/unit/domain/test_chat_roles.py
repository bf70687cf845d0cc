from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.adapters.access_files import RolesFileInvalid, read_book
from orchestrator.domain.access import Role

PROJECT = Path(__file__).resolve().parents[3]


def book(tmp_path: Path, **fields: object):
    roles = {"roles": {"talker": {"servers": ["chat"], **fields}}}
    (tmp_path / "roles.json").write_text(json.dumps(roles))
    return read_book(tmp_path / "roles.json", tmp_path)


def test_both_shipped_roles_have_chat(tmp_path):
    roles = read_book(PROJECT / "roles.json", tmp_path).roles
    assert {name for name, role in roles.items() if role.may_call("chat", "send")} == {"admin", "developer"}


def test_rooms_are_read_from_the_role_file(tmp_path):
    rooms = ["#team:example.org", "!abc:example.org", "!withoutdomain", "*"]
    assert book(tmp_path, chatRooms=rooms).roles["talker"].chat_rooms == frozenset(rooms)


@pytest.mark.parametrize("room", ["team", "", "@ann:example.org", "#a b", "!", "#*\n"])
def test_an_entry_that_is_no_room_is_refused_with_its_place(tmp_path, room):
    with pytest.raises(RolesFileInvalid, match=r"roles\.talker\.chatRooms"):
        book(tmp_path, chatRooms=[room])


@pytest.mark.parametrize("servers", [frozenset({"*"}), frozenset({"chat"})])
def test_without_rooms_no_server_entry_opens_chat(servers):
    decision = Role("talker", servers).decide("chat", "send")
    assert not decision.allowed
    assert decision.rule == "chatRooms of role talker is empty"


def test_rooms_open_chat_and_the_tool_rules_still_hold():
    rooms = frozenset({"*"})
    assert Role("r", frozenset(), chat_rooms=rooms).decide("chat", "send").rule == "chatRooms of role r is not empty"
    assert not Role("r", frozenset(), denied_tools=("chat/send",), chat_rooms=rooms).may_call("chat", "send")
    assert not Role("r", frozenset(), allowed_tools=("a/b",), chat_rooms=rooms).may_call("chat", "send")

from __future__ import annotations

import ast
import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.domain.names import Names, server_identifier, tool_identifier
from orchestrator.domain.tools import Tool
from tests.unit.client_library.workspace import CLIENT_LIBRARY

any_text = st.text(st.characters(exclude_categories=[]))


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ("read_file", "read_file"),
        ("get-weread-rank", "get_weread_rank"),
        ("a.b", "a_b"),
        ("a/../b", "a____b"),
        ("getUserByID", "getUserByID"),
        ("class", "class_"),
        ("lambda", "lambda_"),
        ("function", "function_"),
        ("await", "await_"),
        ("then", "then_"),
        ("constructor", "constructor_"),
        ("__proto__", "__proto___"),
        ("__init__", "__init___"),
        ("index", "index_"),
        ("Index", "Index_"),
        ("list", "list"),
        ("type", "type"),
        ("1st", "_1st"),
        ("", "_"),
        ("获取天气", "获取天气"),
        ("ﬁle", "file"),
        ("a\u200bb\x00c\ud800", "a_b_c_"),
        ("a\ufe0f", "a_"),
    ],
)
def test_tool_gets_a_valid_identifier(name: str, identifier: str) -> None:
    assert tool_identifier(name) == identifier


@pytest.mark.parametrize("name", ["discovery", "errors", "content", "_client", "Discovery", "__init__"])
def test_server_does_not_take_the_place_of_the_client_library(name: str) -> None:
    assert server_identifier(name) == f"{name}_"


@given(any_text)
def test_every_name_becomes_an_identifier_that_python_takes_as_it_is(name: str) -> None:
    for identifier in (tool_identifier(name), server_identifier(name)):
        assert not keyword.iskeyword(identifier)
        (assignment,) = ast.parse(f"{identifier} = 1").body
        assert isinstance(assignment, ast.Assign)
        assert ast.unparse(assignment.targets[0]) == identifier
        assert len(f"{identifier}.ts".encode()) <= 255


@given(any_text)
def test_identifier_of_an_identifier_is_itself_unless_it_is_reserved(name: str) -> None:
    once = tool_identifier(name)
    assert tool_identifier(once) in {once, f"{once}_"}


def test_long_names_that_begin_alike_stay_apart() -> None:
    assert tool_identifier("x" * 300 + "a") != tool_identifier("x" * 300 + "b")


def test_names_lead_back_to_their_tools() -> None:
    tools = [Tool("my-server", "get-weread-rank"), Tool("my-server", "a.b"), Tool("other", "class")]
    names = Names.of(tools)
    assert names.find("my_server", "get_weread_rank") == tools[0]
    assert names.find("my_server", "a_b") == tools[1]
    assert names.find("other", "class_") == tools[2]
    assert names.find("other", "class") is None
    assert names.collisions == ()


def test_collision_disables_the_colliding_tools_alone_and_names_them() -> None:
    names = Names.of([Tool("s", "a.b"), Tool("s", "a-b"), Tool("s", "ab"), Tool("t", "a_b")])
    assert list(names.tools["s"]) == ["ab"]
    assert list(names.tools["t"]) == ["a_b"]
    (collision,) = names.collisions
    assert collision.names == ("a-b", "a.b")
    assert "'a-b' and 'a.b' of the server 's'" in collision.message


def test_names_that_differ_only_in_case_collide() -> None:
    names = Names.of([Tool("s", "getUser"), Tool("s", "getuser")])
    assert names.tools["s"] == {}
    assert names.collisions[0].names == ("getUser", "getuser")


def test_servers_that_collide_are_disabled_with_all_their_tools() -> None:
    names = Names.of([Tool("a-b", "x"), Tool("a_b", "y"), Tool("c", "z")])
    assert list(names.tools) == ["c"]
    assert names.collisions[0].names == ("a-b", "a_b")
    assert "servers" in names.collisions[0].message


def test_order_of_the_tools_changes_nothing() -> None:
    tools = [Tool("s", name) for name in ("b", "a.b", "a-b", "c")]
    assert Names.of(tools) == Names.of(reversed(tools))


def test_tool_that_is_listed_twice_is_one_tool() -> None:
    names = Names.of([Tool("s", "a", "first"), Tool("s", "a", "second")])
    assert names.tools["s"]["a"].description == "first"
    assert names.collisions == ()


@pytest.mark.parametrize("name", sorted({path.stem for path in CLIENT_LIBRARY.glob("*/*.[pt][ys]")}))
def test_no_server_is_called_like_a_file_of_the_client_library(name: str) -> None:
    assert server_identifier(name) != name

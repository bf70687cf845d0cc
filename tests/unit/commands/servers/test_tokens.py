"""Tokens of servers: in files of their own, never in an entry."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchestrator.commands.servers.tokens import (
    VARIABLE,
    BadToken,
    TokenFiles,
    Tokens,
    Wallet,
    environment_of,
    headers_of,
)


def asked(word: str) -> str:
    return f"answer for {word}\n"


def wallet(server: str = "my-server", **environment: str) -> Wallet:
    return Wallet(server, environment, asked)


def test_a_value_comes_from_the_environment_or_is_asked_for():
    own = wallet(API_KEY="from the environment")
    assert environment_of(own, ["API_KEY", "OTHER"]) == {
        "API_KEY": "${MY_SERVER__API_KEY}",
        "OTHER": "${MY_SERVER__OTHER}",
    }
    assert own.values == {"MY_SERVER__API_KEY": "from the environment", "MY_SERVER__OTHER": "answer for OTHER"}
    assert own.given_openly == []


def test_a_value_on_the_command_line_is_kept_the_same_way_and_told():
    own = wallet()
    assert environment_of(own, ["API_KEY=a=b"]) == {"API_KEY": "${MY_SERVER__API_KEY}"}
    assert own.values == {"MY_SERVER__API_KEY": "a=b"}
    assert own.given_openly == ["API_KEY"]


def test_a_header_names_a_variable_or_is_kept_whole_or_is_asked_for():
    own = wallet(KEY="k")
    assert headers_of(own, ["Authorization: Bearer ${KEY}", "X-Plain: value", "X-Asked"]) == {
        "Authorization": "Bearer ${MY_SERVER__KEY}",
        "X-Plain": "${MY_SERVER__X_Plain}",
        "X-Asked": "${MY_SERVER__X_Asked}",
    }
    assert own.values == {
        "MY_SERVER__KEY": "k",
        "MY_SERVER__X_Plain": "value",
        "MY_SERVER__X_Asked": "answer for X-Asked",
    }
    assert own.given_openly == ["X-Plain"]


def test_no_two_servers_share_a_variable():
    pairs = [("a", "B__C"), ("a-b", "C"), ("a", "_B"), ("a-b", "_C"), ("a", "B_C"), ("a-b-c", "D"), ("a", "B_C__D")]
    assert len({wallet(server).variable(key) for server, key in pairs}) == len(pairs)


def test_a_server_whose_name_begins_with_a_digit_has_variables_as_others_have():
    own = wallet("3d", KEY="k")
    assert environment_of(own, ["KEY"]) == {"KEY": "${_3D__KEY}"}
    assert all(VARIABLE.fullmatch(variable) for variable in own.values)


def test_a_value_that_is_named_twice_is_asked_for_once():
    answers = iter(["first", "second"])
    own = Wallet("a", {}, lambda _: next(answers))
    headers_of(own, ["Authorization: Bearer ${KEY}", "X-Key: ${KEY}"])
    assert own.values == {"A__KEY": "first"}


def test_two_names_that_would_share_a_file_are_refused():
    with pytest.raises(BadToken, match="X-Key and X_Key"):
        headers_of(wallet(), ["X-Key: one", "X_Key: two"])


@pytest.mark.parametrize("value", ["", "  ", "two\nlines", "with\x00null", "tab\tbed", "x" * 20_000])
def test_a_value_that_cannot_be_passed_on_is_refused_without_being_told(value: str):
    with pytest.raises(BadToken) as refused:
        environment_of(wallet(), [f"KEY={value}"])
    assert "KEY" in str(refused.value)
    assert not value.strip() or value.strip() not in str(refused.value)


@pytest.mark.parametrize("option", ["=x", "A B=x", "1A", "A-B", "../x", "$(x)"])
def test_a_variable_needs_a_name(option: str):
    with pytest.raises(BadToken):
        environment_of(wallet(), [option])


@pytest.mark.parametrize("option", [": x", "A B: x", "A\r\nB: x"])
def test_a_header_needs_a_name(option: str):
    with pytest.raises(BadToken):
        headers_of(wallet(), [option])


@pytest.fixture
def files(tmp_path: Path) -> TokenFiles:
    made = TokenFiles(tmp_path / "secrets")
    made.write(Tokens(of_container={"A__KEY": "of the container"}, of_daemon={"A__HEADER": "of the daemon"}))
    return made


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_tokens_lie_in_a_directory_that_is_closed_to_others(files: TokenFiles):
    own = files.secrets_dir / "own"
    assert mode(own) == 0o700
    assert mode(own / "containers" / "A__KEY") == 0o600
    # The daemon, another user, reads its own where they are mounted.
    assert mode(own / "daemon" / "A__HEADER") == (0o640 if os.geteuid() == 0 else 0o644)
    assert (own / "containers" / "A__KEY").read_text() == "of the container\n"


def test_the_tokens_of_a_server_go_and_those_of_others_stay(files: TokenFiles):
    files.write(Tokens(of_container={"A_B__KEY": "of another"}))
    assert files.remove("a", keep=Tokens(of_daemon={"A__HEADER": "of the daemon"})) == ["A__KEY"]
    assert files.remove("a") == ["A__HEADER"]
    assert files.of("a-b").of_container == {"A_B__KEY": "of another"}


def test_a_token_that_is_kept_in_one_place_goes_from_the_other(files: TokenFiles):
    files.write(Tokens(of_daemon={"A__KEY": "of the daemon now"}))
    assert sorted(files.remove("a", keep=Tokens(of_daemon={"A__KEY": "of the daemon now"}))) == ["A__HEADER", "A__KEY"]
    assert files.of("a") == Tokens(of_daemon={"A__KEY": "of the daemon now"})


def test_no_value_of_a_token_is_shown(files: TokenFiles):
    assert files.hide("it said: of the container, of the daemon") == "it said: ***, ***"
    assert "of the" not in repr(files.of("a"))

from __future__ import annotations

import pytest

from orchestrator.domain.access import AccessBook
from orchestrator.domain.errors import ForeignOrigin, MisdirectedRequest, Unauthenticated
from orchestrator.faces.auth import Authenticator
from orchestrator.faces.rebinding import HostCheck

CHECK = HostCheck(frozenset({"executor.example.org"}))


@pytest.mark.parametrize(
    "host", ["localhost:9091", "127.0.0.1", "[::1]:9091", "LOCALHOST", "executor.example.org:9091", "10.1.2.3:9091"]
)
def test_names_of_this_machine_and_addresses_are_let_in(host):
    CHECK.check({"Host": host})


@pytest.mark.parametrize(
    ("host", "found"),
    [
        ("evil.example.com", "it names evil.example.com"),
        ("localhost.evil.com:9091", "it names localhost.evil.com"),
        ("", "it is missing"),
        ("127.0.0.1.evil.com", "it names 127.0.0.1.evil.com"),
        ("a:b:c", "it names a"),
        ("localhost@evil.com", "it names localhost@evil.com"),
    ],
)
def test_a_name_that_was_made_to_point_here_is_refused(host, found):
    with pytest.raises(MisdirectedRequest) as refusal:
        CHECK.check({"Host": host})
    assert refusal.value.message == f"The Host header must name this daemon; {found}."


@pytest.mark.parametrize("origin", ["http://localhost:3000", "http://127.0.0.1", "https://executor.example.org"])
def test_pages_of_this_machine_are_let_in(origin):
    CHECK.check({"Host": "localhost:9091", "Origin": origin})


def test_the_daemons_own_page_is_let_in_by_its_address():
    CHECK.check({"Host": "10.1.2.3:9091", "Origin": "http://10.1.2.3:9091"})


@pytest.mark.parametrize("origin", ["http://evil.example.com", "null", "", "file://", "http://localhost.evil.com"])
def test_a_page_of_another_site_is_refused(origin):
    with pytest.raises(ForeignOrigin):
        CHECK.check({"Host": "localhost:9091", "Origin": origin})


class NoKeys:
    book = AccessBook({}, {}, ())


@pytest.mark.parametrize("key", ["${CODE_EXECUTOR_KEY}", "${env:KEY}", "$CODE_EXECUTOR_KEY", "{{key}}"])
def test_a_variable_that_was_not_filled_in_gets_its_own_hint(key):
    with pytest.raises(Unauthenticated, match="did not fill the variable in"):
        Authenticator(NoKeys()).authenticate({"Authorization": f"Bearer {key}"})


def test_a_wrong_key_gets_no_such_hint():
    with pytest.raises(Unauthenticated, match="not known"):
        Authenticator(NoKeys()).authenticate({"Authorization": "Bearer abc$def"})

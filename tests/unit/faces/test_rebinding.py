from __future__ import annotations

import pytest

from orchestrator.domain.access import AccessBook
from orchestrator.domain.errors import ForeignOrigin, MisdirectedRequest, Unauthenticated
from orchestrator.faces.auth import Authenticator
from orchestrator.faces.rebinding import HostCheck
from orchestrator.service.sign_ins import SignIns
from tests.support.fake_sign_ins import FakeSignIns

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
        ("a:b:c", "it names a:b:c"),
        ("localhost@evil.com", "it names localhost@evil.com"),
        ("127.0.0.1/evil.com", "it names 127.0.0.1/evil.com"),
        ("localhost?evil.com", "it names localhost?evil.com"),
    ],
)
def test_a_name_that_was_made_to_point_here_is_refused(host, found):
    with pytest.raises(MisdirectedRequest) as refusal:
        CHECK.check({"Host": host})
    assert refusal.value.message == f"The Host header must name this daemon; {found}."


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("localhost:9091", "http://localhost:9091"),
        ("LOCALHOST:9091", "http://localhost:9091"),
        ("10.1.2.3:9091", "http://10.1.2.3:9091"),
        ("[::1]:9091", "http://[::1]:9091"),
        ("localhost", "http://localhost"),
        ("localhost:80", "http://localhost"),
        ("executor.example.org", "https://executor.example.org"),
        ("executor.example.org:443", "https://executor.example.org"),
    ],
)
def test_the_daemons_own_page_is_let_in(host, origin):
    CHECK.check({"Host": host, "Origin": origin})


def test_a_page_of_a_proxy_in_front_of_the_daemon_is_let_in_by_its_name():
    CHECK.check({"Host": "127.0.0.1:9091", "Origin": "https://executor.example.org"})


@pytest.mark.parametrize(
    "origin",
    [
        *(
            "http://evil.example.com",
            "null",
            "",
            "file://",
            "http://localhost.evil.com",
            "http://localhost.evil.com:9091",
        ),
        *(
            "chrome-extension://localhost:9091",
            "localhost:9091",
            "http://",
            "http://:9091",
            "http://localhost@evil.com:9091",
        ),
    ],
)
def test_a_page_of_another_site_is_refused(origin):
    with pytest.raises(ForeignOrigin):
        CHECK.check({"Host": "localhost:9091", "Origin": origin})


@pytest.mark.parametrize(
    "origin",
    [
        *("http://localhost:3000", "http://localhost", "https://localhost:9092", "http://localhost:99999"),
        *("http://127.0.0.1:9091", "http://[::1]:9091", "http://executor.example.org:3000"),
    ],
)
def test_a_page_on_another_port_or_under_another_name_of_this_machine_is_refused(origin):
    with pytest.raises(ForeignOrigin, match="with its port"):
        CHECK.check({"Host": "localhost:9091", "Origin": origin})


class NoKeys:
    book = AccessBook({}, {}, ())


AUTHENTICATOR = Authenticator(NoKeys(), SignIns(NoKeys(), FakeSignIns()))


@pytest.mark.parametrize("key", ["${CODE_EXECUTOR_KEY}", "${env:KEY}", "$CODE_EXECUTOR_KEY", "{{key}}"])
def test_a_variable_that_was_not_filled_in_gets_its_own_hint(key):
    with pytest.raises(Unauthenticated, match="did not fill the variable in"):
        AUTHENTICATOR.authenticate({"Authorization": f"Bearer {key}"})


def test_a_wrong_key_gets_no_such_hint():
    with pytest.raises(Unauthenticated, match="not known"):
        AUTHENTICATOR.authenticate({"Authorization": "Bearer abc$def"})

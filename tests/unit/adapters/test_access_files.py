import json

import pytest

from orchestrator.adapters import access_files
from orchestrator.adapters.access_files import AccessFiles, RolesFileInvalid, read_book
from orchestrator.commands import keys
from orchestrator.domain.errors import Unauthenticated
from orchestrator.faces.auth import Authenticator, presented_key

ROLES = {
    "roles": {
        "admin": {"servers": ["*"], "seesAllExecutions": True, "keys": ["admin-key"]},
        "developer": {"servers": ["postgres"], "keys": ["developer-key"]},
    }
}


@pytest.fixture
def place(tmp_path):
    (tmp_path / "roles.json").write_text(json.dumps(ROLES, indent=2))
    keys.ensure(key_files(tmp_path))
    return tmp_path


def key_files(place):
    return keys.key_files(place / "roles.json", place / "secrets")


def key_of(place, role):
    return next(file for file in key_files(place) if file.role == role).read()


def access(place):
    return AccessFiles(place / "roles.json", place / "secrets" / "hashes")


def test_a_key_finds_its_caller_and_role(place):
    caller = access(place).book.identify(key_of(place, "developer"))
    assert (caller.key_name, caller.role.name) == ("developer-key", "developer")
    assert caller.role.may_call("postgres", "query")
    assert not caller.role.may_call("filesystem", "read_file")


@pytest.mark.parametrize("wrong", ["", "x", "é" * 40, "\ud800", "a" * 100_000])
def test_an_unknown_key_finds_nobody(place, wrong):
    assert access(place).book.identify(wrong) is None


def test_the_hash_itself_is_no_key(place):
    (digest, *_) = access(place).book.key_hashes
    assert access(place).book.identify(digest.sha256_hex) is None


def test_keys_are_256_random_bits_with_mode_0640_and_only_hashes_are_beside_them(place):
    files = key_files(place)
    assert {file.mode for file in files} == {0o640}
    assert len({file.read() for file in files}) == 2
    assert all(len(bytes.fromhex(file.read())) == 32 for file in files)
    assert all(file.read() not in file.hash_path.read_text() for file in files)


def test_ensuring_twice_changes_nothing(place):
    before = {file.name: file.read() for file in key_files(place)}
    assert keys.ensure(key_files(place)) == []
    assert {file.name: file.read() for file in key_files(place)} == before


def test_a_hash_that_was_lost_is_mended(place):
    for file in key_files(place):
        file.hash_path.unlink()
    keys.ensure(key_files(place))
    assert access(place).book.identify(key_of(place, "admin")) is not None


def test_rotation_is_taken_up_and_the_old_key_is_refused(place):
    files, old = access(place), key_of(place, "developer")
    keys.rotate(key_files(place), "developer")
    files.refresh()
    assert files.book.identify(old) is None
    assert files.book.identify(key_of(place, "developer")).role.name == "developer"
    assert files.book.identify(key_of(place, "admin")).role.name == "admin"


def test_rotating_an_unknown_role_names_the_known_ones(place):
    with pytest.raises(keys.UnknownRole, match="admin, developer"):
        keys.rotate(key_files(place), "root")


def test_an_invalid_role_file_keeps_the_old_roles(place):
    files, key = access(place), key_of(place, "admin")
    (place / "roles.json").write_text("{")
    files.refresh()
    assert files.book.identify(key).role.name == "admin"


def test_what_could_not_be_read_once_is_read_again(place, monkeypatch):
    """Otherwise a key that was rotated in an unlucky moment would stay valid."""
    files, old = access(place), key_of(place, "admin")
    keys.rotate(keys.key_files(place / "roles.json", place / "secrets"), "admin")
    with monkeypatch.context() as broken:
        broken.setattr(access_files, "read_roles", _too_many_files)
        files.refresh()
    assert files.book.identify(old) is not None
    files.refresh()
    assert files.book.identify(old) is None
    assert files.book.identify(key_of(place, "admin")).role.name == "admin"


def _too_many_files(_):
    raise OSError(24, "Too many open files")


def test_a_role_file_that_is_no_text_keeps_the_old_roles(place):
    files, key = access(place), key_of(place, "admin")
    (place / "roles.json").write_bytes(b"\xff\xfe{}")
    files.refresh()
    assert files.book.identify(key).role.name == "admin"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{\n  oops", "line 2"),
        ('{"roles": {}}', "roles"),
        ('{\n"roles": {\n"a": {"servers": "x"}}}', "line 3: roles.a.servers"),
        ('{\n"roles": {"a": {"servers": [],\n"serverz": []}}}', "line 3: roles.a.serverz"),
        ('{"roles": {"a": {"servers": ["../x"]}}}', "roles.a.servers"),
        (
            '{"roles": {"a": {"servers": [], "keys": ["k"]}, "b": {"servers": [], "keys": ["k"]}}}',
            "belongs to a and to b",
        ),
    ],
)
def test_a_role_file_with_a_mistake_is_refused_with_its_place(tmp_path, text, complaint):
    (tmp_path / "roles.json").write_text(text)
    with pytest.raises(RolesFileInvalid, match=complaint):
        read_book(tmp_path / "roles.json", tmp_path)


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ({"Authorization": "Bearer abc"}, "abc"),
        ({"Authorization": "bearer  abc "}, "abc"),
        ({"X-API-Key": "abc"}, "abc"),
        ({"Authorization": "Basic abc"}, None),
        ({"Authorization": "Bearer "}, None),
        ({}, None),
    ],
)
def test_the_key_is_read_from_either_header(headers, key):
    assert presented_key(headers) == key


def test_no_key_and_a_wrong_key_are_told_apart(place):
    authenticator = Authenticator(access(place))
    with pytest.raises(Unauthenticated, match="no key"):
        authenticator.authenticate({})
    with pytest.raises(Unauthenticated, match="not known"):
        authenticator.authenticate({"X-API-Key": "wrong"})

import json
import os

import pytest
from structlog.testing import capture_logs

from orchestrator.adapters import access_files
from orchestrator.adapters.access_files import AccessFiles, RolesFileInvalid, read_book
from orchestrator.commands import keys
from orchestrator.domain.access import hash_key
from orchestrator.domain.errors import Unauthenticated
from orchestrator.faces.auth import Authenticator, presented_key
from orchestrator.service.sign_ins import SignIns
from tests.support.fake_sign_ins import FakeSignIns

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


def test_roles_that_could_not_be_read_once_are_read_again_and_a_rotated_key_is_refused_meanwhile(place, monkeypatch):
    files, old = access(place), key_of(place, "admin")
    write_roles(place, admin={"servers": []})
    keys.rotate(key_files(place), "admin")
    with monkeypatch.context() as broken:
        broken.setattr(access_files, "_read_document", _too_many_files)
        files.refresh()
    assert files.book.identify(old) is None
    assert files.book.identify(key_of(place, "admin")).role.servers == {"*"}
    files.refresh()
    assert files.book.identify(key_of(place, "admin")).role.servers == frozenset()


def write_roles(place, **changes):
    roles = {name: {**entry, **changes.get(name, {})} for name, entry in ROLES["roles"].items()}
    (place / "roles.json").write_text(json.dumps({"roles": roles}, indent=2))


def _too_many_files(_):
    raise OSError(24, "Too many open files")


def test_a_role_file_that_is_no_text_keeps_the_old_roles(place):
    files, key = access(place), key_of(place, "admin")
    (place / "roles.json").write_bytes(b"\xff\xfe{}")
    files.refresh()
    assert files.book.identify(key).role.name == "admin"


# --- a key that was taken away ---


def hash_of(place, role):
    return place / "secrets" / "hashes" / f"{role}-key.sha256"


def nobody_can_read(hash_file):
    hash_file.unlink()
    hash_file.symlink_to(hash_file)  # root reads whatever has a mode, but not this


def holds_nonsense(hash_file):
    hash_file.write_text("not a hash")


def is_no_text(hash_file):
    hash_file.write_bytes(b"\xff" * 64)


def is_a_pipe(hash_file):
    hash_file.unlink()
    os.mkfifo(hash_file)


def is_a_directory(hash_file):
    hash_file.unlink()
    hash_file.mkdir()


def is_a_gigabyte(hash_file):
    with hash_file.open("r+b") as file:
        file.truncate(1 << 30)


def leads_to_something_endless(hash_file):
    hash_file.unlink()
    hash_file.symlink_to("/dev/zero")


SPOILT = [
    nobody_can_read,
    holds_nonsense,
    is_no_text,
    is_a_pipe,
    is_a_directory,
    is_a_gigabyte,
    leads_to_something_endless,
]


@pytest.mark.parametrize(
    "text", ["{", "[" * 100_000, '{"roles": {}}', None], ids=["no JSON", "deep", "no role", "gone"]
)
def test_a_key_whose_hash_is_gone_is_refused_whatever_is_the_matter_with_the_roles(place, text):
    files, admin, developer = access(place), key_of(place, "admin"), key_of(place, "developer")
    hash_of(place, "developer").unlink()
    (place / "roles.json").unlink()
    if text is not None:
        (place / "roles.json").write_text(text)
    files.refresh()
    assert files.book.identify(developer) is None
    assert files.book.identify(admin).role.name == "admin"  # the control: the old roles are kept
    assert {name for name, _ in files.book.live_keys} == {"admin-key"}


def test_a_new_key_is_taken_up_while_the_role_file_has_a_mistake(place):
    files, old, new = access(place), key_of(place, "developer"), "a new key"
    (place / "roles.json").write_text("{")
    hash_of(place, "developer").write_text(hash_key(new))
    files.refresh()
    assert (files.book.identify(old), files.book.identify(new).role.name) == (None, "developer")


@pytest.mark.parametrize("spoil", SPOILT)
def test_a_hash_that_cannot_be_read_refuses_its_own_key_and_keeps_no_other_alive(place, spoil):
    write_roles(place, admin={"keys": ["admin-key", "third-key"]})
    hash_of(place, "third").write_text(hash_key("the third"))
    files, admin, developer = access(place), key_of(place, "admin"), key_of(place, "developer")
    assert all(files.book.identify(key) for key in (admin, developer, "the third"))
    spoil(hash_of(place, "developer"))
    hash_of(place, "third").unlink()
    files.refresh()
    assert [files.book.identify(key) for key in (developer, "the third")] == [None, None]
    assert files.book.identify(admin).role.name == "admin"


@pytest.mark.parametrize("spoil", SPOILT)
def test_a_daemon_starts_with_the_keys_that_can_be_read(place, spoil):
    admin, developer = key_of(place, "admin"), key_of(place, "developer")
    spoil(hash_of(place, "developer"))
    book = access(place).book
    assert (book.identify(admin).role.name, book.identify(developer)) == ("admin", None)


def test_what_is_refused_is_said_once_and_again_when_it_changes(place):
    files = access(place)
    with capture_logs() as logs:
        for spoil in (holds_nonsense, holds_nonsense, is_a_pipe):
            spoil(hash_of(place, "developer"))
            files.refresh()
            files.refresh()
    refusals = [(entry["file"], entry["log_level"]) for entry in logs if entry["event"] == "access.hash_refused"]
    assert refusals == [("developer-key.sha256", "error")] * 2


def test_files_that_are_refused_are_closed(place):
    files = access(place)
    is_a_directory(hash_of(place, "developer"))
    is_a_gigabyte(hash_of(place, "admin"))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        files.refresh()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("put_there", ["nothing", "a file"])
def test_without_a_directory_that_can_be_listed_every_key_is_refused_and_it_is_said_once(place, put_there):
    files, admin = access(place), key_of(place, "admin")
    hashes = place / "secrets" / "hashes"
    hashes.rename(place / "elsewhere")
    if put_there == "a file":
        hashes.write_text("")
    with capture_logs() as logs:
        files.refresh()
        files.refresh()
    assert (files.book.identify(admin), files.book.live_keys) == (None, frozenset())
    said = [entry["reason"] for entry in logs if entry["event"] == "access.hash_refused"]
    assert len(said) == 1
    assert "every key is refused" in said[0]
    hashes.unlink(missing_ok=True)
    (place / "elsewhere").rename(hashes)
    files.refresh()
    assert files.book.identify(admin).role.name == "admin"


def test_a_key_that_no_role_has_any_more_is_not_live(place):
    files, developer = access(place), key_of(place, "developer")
    write_roles(place, developer={"keys": []})
    files.refresh()
    assert files.book.identify(developer) is None
    assert {name for name, _ in files.book.live_keys} == {"admin-key"}


def test_a_key_that_was_given_another_role_has_it_at_once(place):
    files = access(place)
    caller = files.book.identify(key_of(place, "admin"))
    write_roles(place, admin={"keys": []}, developer={"keys": ["developer-key", "admin-key"]})
    files.refresh()
    assert (caller.role.name, files.book.role_now(caller).name) == ("admin", "developer")


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


def test_a_role_may_have_a_day_and_no_more(tmp_path):
    def roles(seconds):
        entry = {"servers": [], "limits": {"timeoutSeconds": seconds}}
        (tmp_path / "roles.json").write_text(json.dumps({"roles": {"patient": entry}}))
        return read_book(tmp_path / "roles.json", tmp_path).roles

    assert roles(86_400)["patient"].max_timeout_seconds == 86_400
    with pytest.raises(RolesFileInvalid, match="timeoutSeconds: Input should be less than or equal to 86400"):
        roles(86_401)


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
    known = access(place)
    authenticator = Authenticator(known, SignIns(known, FakeSignIns()))
    with pytest.raises(Unauthenticated, match="no key"):
        authenticator.authenticate({})
    with pytest.raises(Unauthenticated, match="not known"):
        authenticator.authenticate({"X-API-Key": "wrong"})

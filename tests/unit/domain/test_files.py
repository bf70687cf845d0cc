"""Names of files and workspaces, and what names their contents."""

import pytest

from orchestrator.domain.access import Caller, Role
from orchestrator.domain.errors import InvalidRequest
from orchestrator.domain.files import (
    File,
    Version,
    inputs_digest,
    is_name,
    media_type_of,
    require_name,
    require_workspace_name,
    shown_name,
)


@pytest.mark.parametrize("name", ["a", "data.csv", "a/b/c.txt", ".hidden", "straße/Ünïcode 名前.txt", "a b", "..."])
def test_ordinary_names_are_taken_as_they_are(name):
    assert require_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *("", "/", "/etc/passwd", "..", "../x", "a/../b", "a//b", "a/", "./a", "a/.", "a\0b", "a\nb", "\x1b[2J"),
        *("\u202egnp.exe", "\ud800", "x" * 256, "é" * 128, "/".join("a" * 33), "a/" * 600 + "b"),
    ],
)
def test_a_name_that_leaves_its_folder_or_that_no_folder_takes_is_refused(name):
    assert not is_name(name)
    with pytest.raises(InvalidRequest, match="is no name for a file"):
        require_name(name)


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("x" * 300, "Each part between slashes must have at most 255 bytes; one has 300."),
        ("a/" + "é" * 128, "Each part between slashes must have at most 255 bytes; one has 256."),
        ("abcdefgh/" * 60 + "a", "It must have at most 512 characters; it has 541."),
        ("/".join("a" * 33), "It must have at most 32 parts between slashes; it has 33."),
        ("../x", "It must be a relative path such as `data/orders.csv`, without `.`, `..` or `//`."),
        ("a\x1b", "It must have no control characters."),
        ("\ud800", "It must be Unicode text; it holds a lone surrogate."),
    ],
)
def test_a_refused_name_is_told_the_rule_that_it_breaks(name, rule):
    with pytest.raises(InvalidRequest) as refused:
        require_name(name)
    assert refused.value.message.endswith(f"is no name for a file. {rule}")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"plain.txt", "plain.txt"),
        ("ünï.txt".encode(), "ünï.txt"),
        (b"caf\xe9.txt", "caf\\xe9.txt"),
        (b"two\nlines", "two\\nlines"),
        (b"\x1b[2J", "\\x1b[2J"),
        ("\u202egnp.exe".encode(), "\\u202egnp.exe"),
    ],
)
def test_a_name_in_any_encoding_is_shown_as_harmless_text(name, shown):
    assert shown_name(name) == shown
    assert is_name(shown_name(name))


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("a.csv", "text/csv"),
        ("A.PNG", "image/png"),
        ("x.tar.gz", "application/gzip"),
        ("notes.md", "text/markdown"),
        ("none", "application/octet-stream"),
        ("folder.d/none", "application/octet-stream"),
        ("a.nosuchending", "application/octet-stream"),
    ],
)
def test_the_ending_of_a_name_tells_the_media_type(name, media_type):
    assert media_type_of(name) == media_type


@pytest.mark.parametrize("name", ["", "-a", ".a", "a/b", "a b", "ä", "a" * 65, "a\n"])
def test_a_workspace_has_a_plain_name(name):
    assert require_workspace_name("Project_1.x-2") == "Project_1.x-2"
    with pytest.raises(InvalidRequest, match=r"1 to 64 letters .* must begin with a letter or a digit"):
        require_workspace_name(name)


def test_a_snapshot_is_named_by_names_and_contents_in_any_order():
    one, two = File("a", 1, "1" * 64), File("b", 1, "2" * 64)
    digest = Version("w", "e1", "k", 1.0, (one, two)).digest
    assert Version("w", "e2", "other", 2.0, (two, one)).digest == digest
    assert Version("w", "e1", "k", 1.0, (one,)).digest != digest


def test_what_a_program_is_given_has_a_name_unless_it_is_nothing():
    assert inputs_digest([], None) == ""
    digests = [inputs_digest(files, name) for files in ([], [("a", "1")], [("a", "2")]) for name in (None, "w", "v")]
    assert len(set(digests)) == len(digests)


def test_a_workspace_is_the_keys_own_unless_its_role_shares_it():
    role = Role("analyst", frozenset(), shared_workspaces=("team-*", "wiki"))
    caller = Caller("ann", role)
    assert [caller.owner_of(name) for name in ("team-a", "wiki", "wikis", "own")] == [
        "role/analyst",
        "role/analyst",
        "key/ann",
        "key/ann",
    ]

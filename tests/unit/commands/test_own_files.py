"""Which files of the user's are meant, and where files of strangers may be written."""

from __future__ import annotations

import os
from hashlib import sha256
from typing import Any

import pytest

from orchestrator.commands import own_files
from orchestrator.commands.client import CallFailed, Refused
from orchestrator.commands.own_files import NotAFile, NotAnInput, NotSaved, given_files, save, save_all


class Daemon:
    """Has files to give, and takes what it is sent."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}
        self.had: set[str] = set()
        self.sent: dict[str, bytes] = {}

    def offers(self, name: str, content: bytes) -> dict[str, Any]:
        url = f"/{len(self.contents)}"
        self.contents[url] = content
        return {"name": name, "bytes": len(content), "sha256": sha256(content).hexdigest(), "url": url}

    async def download(self, path: str, take: Any) -> None:
        content = self.contents[path]
        for start in range(0, len(content), 3):
            take(content[start : start + 3])

    async def get(self, path: str) -> dict[str, Any]:
        raise Refused("not_for_your_role", "The role may not see it.", "Use another key.")

    async def has_upload(self, digest: str) -> bool:
        return digest in self.had

    async def upload(self, digest: str, size: int, pieces: Any) -> None:
        self.sent[digest] = b"".join([piece async for piece in pieces])
        assert len(self.sent[digest]) == size


@pytest.fixture
def daemon() -> Any:
    return Daemon()


# --- to the daemon ---


def names(*given: str) -> dict[str, str]:
    return {file.name: str(file.path) for file in own_files.own_files(given)}


def test_a_file_is_called_as_it_is_or_as_the_user_says(tmp_path):
    (tmp_path / "data.csv").write_text("1")
    path = str(tmp_path / "data.csv")
    assert names(path) == {"data.csv": path}
    assert names(f"in/a.csv={path}") == {"in/a.csv": path}


def test_a_file_with_an_equals_sign_in_its_name_is_found(tmp_path):
    (tmp_path / "a=b.csv").write_text("1")
    assert list(names(str(tmp_path / "a=b.csv"))) == ["a=b.csv"]


def test_a_link_is_called_as_it_was_typed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data-2026").mkdir()
    (tmp_path / "data-2026" / "a.csv").write_text("1")
    (tmp_path / "data").symlink_to("data-2026")
    (tmp_path / "latest.csv").symlink_to("data-2026/a.csv")
    assert list(names("data", "latest.csv")) == ["data/a.csv", "latest.csv"]
    assert list(names("./data/")) == ["data/a.csv"]
    monkeypatch.chdir(tmp_path / "data-2026")
    assert list(names(".")) == ["data-2026/a.csv"]
    assert list(names("../data-2026/../data")) == ["data/a.csv"]


def test_a_directory_stands_for_its_files_but_not_for_what_links_lead_to(tmp_path, capsys):
    (tmp_path / "data" / "deep").mkdir(parents=True)
    (tmp_path / "data" / "a.csv").write_text("1")
    (tmp_path / "data" / "deep" / "b.csv").write_text("2")
    (tmp_path / "data" / "link.csv").symlink_to("/etc/passwd")
    (tmp_path / "data" / "deep" / "link").symlink_to("/etc")
    assert list(names(str(tmp_path / "data"))) == ["data/a.csv", "data/deep/b.csv"]
    assert capsys.readouterr().err == f"code-executor: left out 2 links in {tmp_path / 'data'}\n"
    assert list(names(f"x={tmp_path / 'data'}")) == ["x/a.csv", "x/deep/b.csv"]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (["missing.csv"], "there is nothing of that name"),
        (["{}/empty"], "has no files"),
        (["/dev/null"], "is not a file."),
    ],
)
def test_what_cannot_be_given_is_told(tmp_path, given, complaint):
    (tmp_path / "sub").mkdir()
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotAFile, match=complaint):
        names(*(each.format(tmp_path) for each in given))


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ([""], "has no path"),
        (["x="], "has no path"),
        (["/"], "cannot be a file's name in the sandbox"),
        (["../x={}/a"], "cannot be a file's name in the sandbox"),
        (["{}/a", "{}/sub/a"], "Two files would be called a"),
    ],
)
def test_what_does_not_say_which_file_is_meant_is_told(tmp_path, given, complaint):
    (tmp_path / "sub").mkdir()
    for path in ("a", "sub/a"):
        (tmp_path / path).write_text("")
    with pytest.raises(NotAnInput, match=complaint):
        names(*(each.format(tmp_path) for each in given))


async def test_a_file_that_is_gone_when_it_is_read_is_told(tmp_path, daemon):
    (tmp_path / "a").write_text("1")
    files = own_files.own_files([str(tmp_path / "a")])
    (tmp_path / "a").unlink()
    with pytest.raises(NotAFile, match=f"{tmp_path / 'a'} cannot be read: No such file or directory"):
        async with given_files(daemon, files):
            pass


async def test_small_files_go_along_and_large_ones_are_sent_once(tmp_path, daemon):
    large = b"x" * (own_files.INLINE_BYTES + 1)
    for name, content in (("small", b"\x00"), ("large", large), ("known", large + b"y")):
        (tmp_path / name).write_bytes(content)
    hashes = {name: sha256((tmp_path / name).read_bytes()).hexdigest() for name in ("large", "known")}
    daemon.had.add(hashes["known"])
    files = own_files.own_files([str(tmp_path / name) for name in ("small", "large", "known")])
    async with given_files(daemon, files) as entries:
        pass
    assert entries == {
        "small": {"base64": "AA=="},
        "large": {"sha256": hashes["large"]},
        "known": {"sha256": hashes["known"]},
    }
    assert daemon.sent == {hashes["large"]: large}


async def test_very_many_small_files_do_not_make_a_huge_request(tmp_path, daemon):
    for number in range(20):
        (tmp_path / f"{number:02}").write_bytes(bytes([number]) * own_files.INLINE_BYTES)
    async with given_files(daemon, own_files.own_files([f"d={tmp_path}"])) as entries:
        pass
    inline = [entry for entry in entries.values() if "base64" in entry]
    assert len(inline) == own_files.MAX_INLINE_BYTES // own_files.INLINE_BYTES
    assert len(daemon.sent) == len(entries) - len(inline)


# --- from the daemon ---


async def test_files_are_saved_with_their_folders(tmp_path, daemon):
    files = [daemon.offers("a.csv", b"1234567"), daemon.offers("d/e/b.csv", b""), daemon.offers("d/ö.csv", b"3")]
    assert await save_all(daemon, files, tmp_path / "new" / "out") == []
    saved = {
        path.relative_to(tmp_path / "new/out").as_posix(): path.read_bytes()
        for path in (tmp_path / "new/out").rglob("*")
        if path.is_file()
    }
    assert saved == {"a.csv": b"1234567", "d/e/b.csv": b"", "d/ö.csv": b"3"}


async def test_a_file_takes_the_place_of_an_earlier_one(tmp_path, daemon):
    (tmp_path / "a.csv").write_text("old")
    await save_all(daemon, [daemon.offers("a.csv", b"new")], tmp_path)
    assert (tmp_path / "a.csv").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a.csv"]


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil", "a/../../evil", "..", "", "a\0b", "a\nb", "a//b"])
async def test_a_name_that_leads_out_of_the_directory_is_not_saved(tmp_path, daemon, name):
    (failure,) = await save_all(daemon, [daemon.offers(name, b"evil")], tmp_path / "out")
    assert "which is not saved" in failure.why
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


async def test_a_link_to_another_directory_is_not_followed(tmp_path, daemon):
    (tmp_path / "outside").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "d").symlink_to(tmp_path / "outside")
    offered = [daemon.offers("d/evil", b"evil"), daemon.offers("good", b"good")]
    assert await save_all(daemon, offered, tmp_path / "out") == [NotSaved("d/evil", "Not a directory")]
    assert (tmp_path / "out" / "good").read_bytes() == b"good"
    assert not list((tmp_path / "outside").iterdir())


async def test_a_link_to_another_file_is_replaced_and_the_file_left_alone(tmp_path, daemon):
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").symlink_to(tmp_path / "precious")
    await save_all(daemon, [daemon.offers("a", b"new")], tmp_path / "out")
    assert (tmp_path / "precious").read_text() == "precious"
    assert not (tmp_path / "out" / "a").is_symlink()
    assert (tmp_path / "out" / "a").read_bytes() == b"new"


async def test_what_arrives_damaged_is_not_saved(tmp_path, daemon):
    file = {**daemon.offers("a", b"content"), "sha256": "0" * 64}
    with pytest.raises(CallFailed, match="did not arrive as it was kept"):
        await save(daemon, file, tmp_path, "a")
    assert os.listdir(tmp_path) == []


def test_a_reason_that_only_a_newer_daemon_knows_is_told_by_its_code(capsys):
    own_files.tell_left_out([{"name": "a\x1b[2J", "bytes": 5, "why": "too_odd"}], 3)
    told = capsys.readouterr().err
    assert "not kept: a" in told
    assert "\x1b" not in told
    assert "5 bytes: too_odd" in told
    assert "not kept: 2 more" in told

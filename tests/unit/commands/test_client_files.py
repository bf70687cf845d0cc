"""The command line's client and the HTTP API, as they meet: files there and back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from hashlib import sha256

import pytest

from orchestrator.commands.client import ApiClient, CallFailed
from orchestrator.commands.own_files import save_all
from tests.support.fake_files import FakeFiles, FakeWorkspaces
from tests.support.http_face import MIB, http_face, services
from tests.support.samples import DEVELOPER


@pytest.fixture
def files() -> FakeFiles:
    return FakeFiles(max_upload_bytes=MIB)


@pytest.fixture
async def client(files: FakeFiles) -> AsyncIterator[ApiClient]:
    workspaces = FakeWorkspaces(files.contents)
    async with http_face(services(DEVELOPER, files=files, workspaces=workspaces)) as url:
        yield ApiClient(url, DEVELOPER.key_name)


async def pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 100_000):
        yield content[start : start + 100_000]


async def test_what_was_sent_is_there(client, files):
    content = bytes(range(256)) * 3000
    digest = sha256(content).hexdigest()
    assert not await client.has_upload(digest)
    await client.upload(digest, len(content), pieces(content))
    assert await client.has_upload(digest)
    assert files.contents.held[digest] == content


@pytest.mark.parametrize("size", [MIB + 1, 20 * MIB])
async def test_a_file_that_is_too_large_is_refused_in_the_daemons_words(client, size):
    with pytest.raises(CallFailed, match=r"must have at most 1048576 bytes.*\(file_too_large\)"):
        await client.upload("0" * 64, size, pieces(bytes(size)))


async def test_a_file_that_changes_meanwhile_is_refused(client):
    with pytest.raises(CallFailed, match="digest_mismatch"):
        await client.upload("0" * 64, 7, pieces(b"content"))


async def test_files_of_odd_names_are_saved(client, files, tmp_path):
    names = ["a b.csv", "100%.txt", "c?d#e", "%41", "d/報告.csv", "f&g=h;i"]
    files.leave(DEVELOPER, "e1", {name: name.encode() for name in names})
    assert await save_all(client, (await client.get("/executions/e1/files"))["files"], tmp_path) == []
    saved = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert saved == set(names)
    assert all((tmp_path / name).read_bytes() == name.encode() for name in names)


async def test_a_file_that_goes_away_is_not_half_saved(client, files, tmp_path):
    files.leave(DEVELOPER, "e1", {"large.bin": bytes(2 * MIB)})
    files.contents.fail_after = 3
    listed = (await client.get("/executions/e1/files"))["files"]
    (failure,) = await save_all(client, listed, tmp_path)
    assert failure.name == "large.bin"
    assert "broke" in failure.why
    assert list(tmp_path.iterdir()) == []

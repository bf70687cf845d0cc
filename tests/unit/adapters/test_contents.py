"""The store of contents on disk: what its threads do when nobody waits for them, and what a sweep leaves alone."""

import asyncio
import os
import threading

import pytest

from orchestrator.adapters import contents as contents_module
from orchestrator.adapters.contents import StoredContents
from orchestrator.domain.errors import StoreUnavailable


@pytest.fixture
def contents(tmp_path):
    contents = StoredContents(tmp_path / "contents")
    yield contents
    contents.close()


def names_in(directory) -> list[str]:
    return [name for _, _, names in os.walk(directory) for name in names]


async def test_a_write_that_is_given_up_ends_before_its_descriptor_is_closed(contents, tmp_path, monkeypatch):
    begun, may_go_on, done = threading.Event(), threading.Event(), []
    write, close = os.write, os.close

    def slow_write(descriptor, data):
        begun.set()
        assert may_go_on.wait(5)
        size = write(descriptor, data)
        done.append("written")
        return size

    def noted_close(descriptor):
        done.append("closed")
        close(descriptor)

    writing = contents.create()
    monkeypatch.setattr(contents_module.os, "write", slow_write)
    monkeypatch.setattr(contents_module.os, "close", noted_close)
    task = asyncio.ensure_future(writing.write(b"half"))
    await asyncio.to_thread(begun.wait, 5)
    task.cancel()
    abandoning = asyncio.ensure_future(writing.abandon())
    await asyncio.wait((abandoning,), timeout=0.05)
    assert done == []
    may_go_on.set()
    await abandoning
    assert done == ["written", "closed"]
    assert names_in(tmp_path / "contents") == []


async def test_what_was_given_up_takes_nothing_more(contents, tmp_path):
    writing = contents.create()
    await writing.abandon()
    with pytest.raises(StoreUnavailable):
        await writing.write(b"late")
    assert names_in(tmp_path / "contents") == []


async def test_a_sweep_leaves_a_content_that_was_written_anew_meanwhile(contents, tmp_path):
    async def store() -> str:
        writing = contents.create()
        await writing.write(b"again")
        return (await writing.finish())[0]

    digest = await store()
    os.utime(contents.path_of(digest), (0, 0))
    with contents.changing:  # a content is being put in place
        sweeping = asyncio.ensure_future(contents.sweep(frozenset(), 60))
        await asyncio.wait((sweeping,), timeout=0.05)
        os.utime(contents.path_of(digest))
    assert await sweeping == 0
    assert await contents.read(digest, 0, 10) == b"again"


async def test_a_content_is_as_old_as_its_place_in_the_store_not_as_its_last_byte(contents, tmp_path):
    writing = contents.create()
    await writing.write(b"slow")
    (incoming,) = contents.incoming.iterdir()
    os.utime(incoming, (0, 0))
    digest, _ = await writing.finish()
    assert await contents.sweep(frozenset(), 60) == 0
    assert await contents.size(digest) == 4

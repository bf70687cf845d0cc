"""One suite for the files in memory and for those on disk with their index in SQLite."""

import os
from dataclasses import replace
from hashlib import sha256

import pytest

from orchestrator.adapters.contents import StoredContents
from orchestrator.domain.errors import FileNotFound
from orchestrator.domain.execution import Ending, ExecutionResult, Filter, Outcome
from orchestrator.domain.files import LEAST_BYTES, File, LeftOut, Upload, Version, Why, WorkspaceEnd
from orchestrator.journals.file_index import SqliteFileIndex
from orchestrator.journals.sqlite import SqliteJournal
from tests.support.fake_journal import FakeJournal
from tests.support.fake_storage import FakeContents, FakeFileIndex
from tests.support.samples import DEVELOPER, OTHER_DEVELOPER, record

LARGE = 3 * LEAST_BYTES
REPORT = File("reports/summer.csv", LARGE, "a" * 64, "text/csv")
CHART = File("chart.png", 10, "b" * 64, "image/png")


@pytest.fixture(params=["memory", "disk"])
async def contents(request, tmp_path):
    if request.param == "memory":
        yield FakeContents()
        return
    contents = StoredContents(tmp_path / "contents")
    yield contents
    contents.close()


@pytest.fixture(params=["memory", "sqlite"])
async def journal(request, tmp_path):
    if request.param == "memory":
        journal = FakeJournal()
        journal.index = FakeFileIndex(journal)
        yield journal
        return
    journal = SqliteJournal(tmp_path / "journal.sqlite3", max_executions=1000)
    journal.index = SqliteFileIndex(journal)
    yield journal
    await journal.close()


async def stored(contents, *pieces: bytes) -> tuple[str, int]:
    writing = contents.create()
    for piece in pieces:
        await writing.write(piece)
    return await writing.finish()


async def finish(journal, id, *files, caller=DEVELOPER, at=100.0):
    begun = record(id=id, caller=caller)
    await journal.open(begun)
    ended = begun.ended(Ending(Outcome.COMPLETED, exit_code=0), at=at)
    await journal.finish(ExecutionResult(replace(ended, files=files)))


def version(execution_id, *files, workspace="project", at=1.0):
    return Version(workspace, execution_id, DEVELOPER.key_name, at, files)


async def test_a_content_is_read_back_by_its_hash_whole_or_in_part(contents):
    digest, size = await stored(contents, b"one, ", b"two, ", b"three")
    assert digest == sha256(b"one, two, three").hexdigest()
    assert (size, await contents.size(digest)) == (15, 15)
    assert await contents.read(digest, 5, 4) == b"two,"
    assert await contents.read(digest, 10, 1000) == b"three"
    assert await contents.read(digest, 1000, 1) == b""


async def test_an_empty_content_is_a_content(contents):
    digest, size = await stored(contents)
    assert (size, await contents.size(digest), await contents.read(digest, 0, 1)) == (0, 0, b"")


async def test_the_same_content_is_kept_once(contents):
    assert await stored(contents, b"same") == await stored(contents, b"sa", b"me")


async def test_what_is_abandoned_leaves_nothing(contents, tmp_path):
    writing = contents.create()
    await writing.write(b"half")
    await writing.abandon()
    await writing.abandon()
    assert not [name for _, _, names in os.walk(tmp_path / "contents") for name in names]


async def test_abandoning_what_was_finished_does_no_harm(contents):
    writing = contents.create()
    await writing.write(b"whole")
    digest, _ = await writing.finish()
    await writing.abandon()
    assert await contents.read(digest, 0, 10) == b"whole"


async def test_a_content_that_is_not_there_is_not_found(contents):
    assert await contents.size("0" * 64) is None
    with pytest.raises(FileNotFound):
        await contents.read("0" * 64, 0, 1)


async def test_a_sweep_takes_what_nobody_wants_but_nothing_that_is_new(contents):
    wanted, _ = await stored(contents, b"wanted")
    other, _ = await stored(contents, b"unwanted")
    assert await contents.sweep(frozenset({wanted}), older_than_seconds=3600) == 0
    assert await contents.sweep(frozenset({wanted}), older_than_seconds=-1) == len(b"unwanted")
    assert (await contents.size(wanted), await contents.size(other)) == (6, None)


async def test_the_files_of_an_execution_are_in_its_record_but_not_in_lists(journal):
    await finish(journal, "e1", REPORT, CHART)
    assert (await journal.find("e1")).files == (REPORT, CHART)
    assert await journal.index.files_of("e1") == (REPORT, CHART)
    assert [each.files for each in await journal.newest(Filter(), 10)] == [()]


async def test_what_was_left_out_and_what_became_of_a_workspace_is_remembered(journal):
    begun = record(id="e1")
    left_out = (LeftOut("huge.bin", Why.TOO_LARGE, 2**30),)
    end = WorkspaceEnd("project", kept=False, version="e0", why_not="It failed.", left_out=left_out)
    ended = replace(begun.ended(Ending(Outcome.COMPLETED), 2.0), left_out=left_out, left_out_count=7, workspace=end)
    await journal.open(begun)
    await journal.finish(ExecutionResult(ended))
    found = await journal.find("e1")
    assert (found.left_out, found.left_out_count, found.workspace) == (left_out, 7, end)


async def test_files_are_dropped_by_name_by_execution_and_by_age(journal):
    await finish(journal, "e1", REPORT, CHART, at=100.0)
    await finish(journal, "e2", CHART, at=200.0)
    assert await journal.index.drop_files("e1", "chart.png") == 1
    assert await journal.index.drop_files("e1", "chart.png") == 0
    assert await journal.index.files_of("e1") == (REPORT,)
    assert await journal.index.drop_files_before(150.0) == 1
    assert await journal.index.drop_files("e2") == 1
    assert (await journal.find("e2")).files == ()


async def test_a_small_file_counts_for_more_than_its_bytes_and_nobody_else_pays(journal):
    await finish(journal, "e1", REPORT, CHART)
    await finish(journal, "e2", CHART, caller=OTHER_DEVELOPER)
    await journal.index.add_upload(DEVELOPER.key_name, Upload("c" * 64, 1, 1.0))
    await journal.index.add_version("key/developer-key", version("e1", CHART), keep=5)
    assert await journal.index.stored_bytes(DEVELOPER.key_name) == LARGE + 3 * LEAST_BYTES
    assert await journal.index.stored_bytes(OTHER_DEVELOPER.key_name) == LEAST_BYTES
    assert await journal.index.stored_bytes() == LARGE + 4 * LEAST_BYTES


async def test_the_oldest_files_of_a_caller_make_room_execution_by_execution(journal):
    await finish(journal, "old", REPORT, CHART, at=100.0)
    await finish(journal, "new", CHART, at=200.0)
    await finish(journal, "others", CHART, caller=OTHER_DEVELOPER, at=50.0)
    assert await journal.index.drop_oldest_files(DEVELOPER.key_name, 1) == LARGE + LEAST_BYTES
    assert [await journal.index.files_of(id) for id in ("old", "new", "others")] == [(), (CHART,), (CHART,)]


async def test_uploads_are_each_callers_own(journal):
    old, new = Upload("c" * 64, 5, 10.0), Upload("d" * 64, 6, 20.0)
    for upload in (old, new, replace(old, uploaded_at=11.0)):
        await journal.index.add_upload("a", upload)
    await journal.index.add_upload("b", old)
    assert list(await journal.index.uploads("a", 10)) == [new, replace(old, uploaded_at=11.0)]
    assert [await journal.index.count_uploads(caller) for caller in "abc"] == [2, 1, 0]
    assert await journal.index.drop_upload("a", new.sha256)
    assert not await journal.index.drop_upload("a", new.sha256)
    assert await journal.index.drop_uploads_before(10.5) == 1
    assert [await journal.index.uploads(caller, 10) for caller in "ab"] == [[replace(old, uploaded_at=11.0)], []]


async def test_uploads_are_listed_in_pages_also_those_of_one_moment_and_while_some_are_deleted(journal):
    uploads = [Upload(letter * 64, 1, at) for letter, at in zip("abcdef", (1.1, 3.3, 2.2, 2.2, 2.2, 4.4), strict=True)]
    for upload in uploads:
        await journal.index.add_upload("a", upload)
    first = await journal.index.uploads("a", 3)
    assert [upload.sha256[0] for upload in first] == ["f", "b", "e"]
    await journal.index.drop_upload("a", first[-1].sha256)
    rest = await journal.index.uploads("a", 10, first[-1].place)
    assert [upload.sha256[0] for upload in rest] == ["d", "c", "a"]


async def test_of_a_workspace_the_newest_versions_stay(journal):
    for number in range(4):
        await journal.index.add_version("key/a", version(f"e{number}", replace(CHART, bytes=number)), keep=3)
    found = await journal.index.versions("key/a", "project")
    assert [each.execution_id for each in found] == ["e3", "e2", "e1"]
    assert found[0] == version("e3", replace(CHART, bytes=3))
    assert await journal.index.versions("key/b", "project") == []


async def test_a_version_that_is_added_again_becomes_the_newest(journal):
    for execution_id in ("e1", "e2", "e1"):
        await journal.index.add_version("key/a", version(execution_id, CHART), keep=3)
    assert [each.execution_id for each in await journal.index.versions("key/a", "project")] == ["e1", "e2"]


async def test_the_newest_version_of_each_workspace_is_listed_by_owner(journal):
    for owner, workspace, execution_id in (
        ("key/a", "one", "e1"),
        ("key/a", "two", "e2"),
        ("role/r", "one", "e3"),
        ("key/b", "one", "e4"),
        ("key/a", "one", "e5"),
    ):
        await journal.index.add_version(owner, version(execution_id, workspace=workspace), keep=3)
    found = await journal.index.newest_versions(["key/a", "role/r"])
    assert [(owner, each.execution_id) for owner, each in found] == [("key/a", "e5"), ("role/r", "e3"), ("key/a", "e2")]
    assert await journal.index.drop_workspace("key/a", "one") == 2
    assert await journal.index.versions("key/a", "one") == []


async def test_everything_that_is_named_is_wanted(journal):
    assert await journal.index.wanted() == frozenset()
    await finish(journal, "e1", REPORT)
    await journal.index.add_upload("a", Upload("c" * 64, 5, 10.0))
    await journal.index.add_version("key/a", version("e1", CHART), keep=1)
    assert await journal.index.wanted() == {"a" * 64, "b" * 64, "c" * 64}
    await journal.index.add_version("key/a", version("e2"), keep=1)
    assert await journal.index.wanted() == {"a" * 64, "c" * 64}


async def test_what_is_written_is_counted_whatever_becomes_of_it(contents):
    await stored(contents, b"one")
    await stored(contents, b"one")
    await contents.sweep(frozenset(), older_than_seconds=-1)
    assert contents.written_bytes == 6


async def test_files_that_cannot_make_enough_room_are_left_alone(journal):
    await finish(journal, "e1", REPORT, CHART)
    assert await journal.index.drop_oldest_files(DEVELOPER.key_name, LARGE + LEAST_BYTES + 1) == 0
    assert await journal.index.files_of("e1") == (REPORT, CHART)


async def test_one_upload_is_found_by_its_hash_for_its_caller_alone(journal):
    upload = Upload("c" * 64, 5, 10.0)
    await journal.index.add_upload("a", upload)
    assert await journal.index.upload("a", upload.sha256) == upload
    assert (await journal.index.upload("b", upload.sha256), await journal.index.upload("a", "d" * 64)) == (None, None)


async def test_one_file_of_a_workspace_is_found_in_the_newest_or_in_an_earlier_version(journal):
    for number in range(2):
        await journal.index.add_version("key/a", version(f"e{number}", replace(CHART, bytes=number), REPORT), keep=3)
    index = journal.index
    assert await index.newest_version("key/a", "project") == version("e1", replace(CHART, bytes=1), REPORT)
    assert await index.file_in_version("key/a", "project", CHART.name, None) == replace(CHART, bytes=1)
    assert await index.file_in_version("key/a", "project", CHART.name, "e0") == replace(CHART, bytes=0)
    for owner, workspace, name, execution_id in (
        ("key/b", "project", CHART.name, None),
        ("key/a", "other", CHART.name, None),
        ("key/a", "project", "no such file", None),
        ("key/a", "project", CHART.name, "e2"),
    ):
        assert await index.file_in_version(owner, workspace, name, execution_id) is None
    assert (await index.newest_version("key/b", "project"), await index.count_workspaces("key/a")) == (None, 1)
    assert [await index.has_version("key/a", "project", id) for id in ("e0", "e2")] == [True, False]

"""Who may have which file, and how much is kept for whom."""

from collections.abc import AsyncIterator
from dataclasses import replace
from hashlib import sha256

import pytest

from orchestrator.domain.errors import (
    DigestMismatch,
    FileNotFound,
    FileTooLarge,
    IntakeFull,
    InvalidRequest,
    NotFound,
    QuotaExceeded,
    TooManyUploads,
)
from orchestrator.domain.execution import Ending, ExecutionResult, Outcome, Shares
from orchestrator.domain.files import (
    LEAST_BYTES,
    File,
    FromExecution,
    FromUpload,
    FromWorkspace,
    Given,
    Kept,
    Version,
    Why,
)
from orchestrator.service import files as files_module
from tests.support.fake_journal import FakeJournal
from tests.support.fake_storage import MEBIBYTE, RULES, FakeStorage
from tests.support.samples import ADMIN, DEVELOPER, OTHER_DEVELOPER, record


@pytest.fixture
def journal():
    return FakeJournal()


@pytest.fixture
def storage(journal):
    return FakeStorage(journal)


async def left(storage, journal, id: str, content: bytes = b"content", name: str = "a.txt", caller=DEVELOPER, at=None):
    file = File(name, len(content), storage.contents.add(content), "text/plain")
    begun = record(id=id, caller=caller)
    await journal.open(begun)
    ended = begun.ended(Ending(Outcome.COMPLETED), at or begun.accepted_at)
    await journal.finish(ExecutionResult(replace(ended, files=(file,))))
    return file


async def pieces(*given: bytes) -> AsyncIterator[bytes]:
    for piece in given:
        yield piece


async def read(brought, storage) -> bytes:
    return b"".join([piece async for piece in storage.files.content_of(brought)])


async def find(storage, wanted, caller=DEVELOPER, id="new"):
    return await storage.files.find_inputs(caller, id, wanted, storage.workspaces.file)


async def test_a_file_is_read_by_whoever_may_see_its_execution(storage, journal):
    file = await left(storage, journal, "e1")
    for caller in (DEVELOPER, ADMIN):
        assert await storage.files.of_execution(caller, "e1") == (file,)
        stored = await storage.files.of_execution_named(caller, "e1", "a.txt")
        assert b"".join([piece async for piece in stored.pieces(2, 3)]) == b"nte"


async def test_files_of_another_caller_are_not_there(storage, journal):
    await left(storage, journal, "e1")
    for use in (storage.files.of_execution, storage.files.delete):
        with pytest.raises(NotFound):
            await use(OTHER_DEVELOPER, "e1")
    with pytest.raises(NotFound):
        await storage.files.of_execution_named(OTHER_DEVELOPER, "e1", "a.txt")
    with pytest.raises(NotFound):
        await find(storage, {"a": FromExecution("e1", "a.txt")}, OTHER_DEVELOPER)


async def test_a_name_that_an_execution_does_not_have_is_not_found(storage, journal):
    await left(storage, journal, "e1")
    with pytest.raises(FileNotFound, match=r"b\.txt"):
        await storage.files.of_execution_named(DEVELOPER, "e1", "b.txt")
    with pytest.raises(FileNotFound):
        await storage.files.delete(DEVELOPER, "e1", "b.txt")
    assert await storage.files.delete(DEVELOPER, "e1") == 1
    assert await storage.files.delete(DEVELOPER, "e1") == 0


async def test_a_content_that_is_damaged_is_said_and_not_passed_on_as_whole(storage, journal):
    file = await left(storage, journal, "e1")
    storage.contents.stored[file.sha256] = b"cut", 0.0
    stored = await storage.files.of_execution_named(DEVELOPER, "e1", "a.txt")
    with pytest.raises(FileNotFound, match="damaged"):
        [piece async for piece in stored.pieces()]


async def test_inputs_come_from_everywhere(storage, journal):
    await left(storage, journal, "e1", b"of an execution")
    kept = File("w.txt", 14, storage.contents.add(b"of a workspace"))
    version = Version("w", "e0", DEVELOPER.key_name, 1.0, (kept,))
    await storage.index.add_version(f"key/{DEVELOPER.key_name}", version, 3)
    upload = await storage.files.upload(DEVELOPER, pieces(b"of an ", b"upload"))
    found = await find(
        storage,
        {
            "given.txt": Given(b"given"),
            "sub/execution.txt": FromExecution("e1", "a.txt"),
            "workspace.txt": FromWorkspace("w", "w.txt"),
            "upload.txt": FromUpload(upload.sha256),
        },
    )
    assert {each.name: await read(each, storage) for each in found} == {
        "given.txt": b"given",
        "sub/execution.txt": b"of an execution",
        "workspace.txt": b"of a workspace",
        "upload.txt": b"of an upload",
    }
    assert found[0].file.sha256 == sha256(b"given").hexdigest()


@pytest.mark.parametrize("name", ["../a", "/a", "a/../../b", "a\0", ""])
async def test_an_input_cannot_leave_its_folder(storage, name):
    with pytest.raises(InvalidRequest):
        await find(storage, {name: Given(b"")})


async def test_a_file_cannot_be_a_folder_too(storage):
    with pytest.raises(InvalidRequest, match="both as a file and as a folder"):
        await find(storage, {"a": Given(b""), "a/b": Given(b"")})


async def test_inputs_are_bounded_in_number_and_size(storage):
    with pytest.raises(InvalidRequest, match="at most 8"):
        await find(storage, {str(number): Given(b"") for number in range(9)})
    with pytest.raises(FileTooLarge):
        await find(storage, {str(number): Given(b"x" * MEBIBYTE) for number in range(3)})


async def test_what_came_with_requests_is_held_for_each_caller_up_to_its_share_and_given_back(storage):
    await find(storage, {"a": Given(b"x" * MEBIBYTE)}, id="e1")
    with pytest.raises(IntakeFull):
        await find(storage, {"a": Given(b"x")}, id="e2")
    await find(storage, {"a": Given(b"x" * MEBIBYTE)}, OTHER_DEVELOPER, id="e3")
    with pytest.raises(IntakeFull):
        await find(storage, {"a": Given(b"x")}, ADMIN, id="e4")
    storage.files.let_go("e1")
    storage.files.let_go("e1")
    await find(storage, {"a": Given(b"x" * MEBIBYTE)}, id="e5")


async def test_an_upload_is_named_by_its_hash_and_its_callers_own(storage):
    upload = await storage.files.upload(DEVELOPER, pieces(b"abc"), sha256(b"abc").hexdigest())
    assert await storage.files.uploaded(DEVELOPER, upload.sha256) == upload
    for use in (storage.files.uploaded, storage.files.delete_upload):
        with pytest.raises(FileNotFound):
            await use(OTHER_DEVELOPER, upload.sha256)
    with pytest.raises(FileNotFound):
        await find(storage, {"a": FromUpload(upload.sha256)}, OTHER_DEVELOPER)
    await storage.files.delete_upload(DEVELOPER, upload.sha256)
    assert await storage.files.uploads(DEVELOPER, 10) == []


@pytest.mark.parametrize(
    ("given", "expected", "error"),
    [((b"abc",), "0" * 64, DigestMismatch), ((b"x" * MEBIBYTE, b"y"), None, FileTooLarge)],
)
async def test_a_wrong_or_too_large_upload_leaves_nothing(storage, given, expected, error):
    with pytest.raises(error):
        await storage.files.upload(DEVELOPER, pieces(*given), expected)
    assert await storage.files.uploads(DEVELOPER, 10) == []
    assert storage.contents.under_way == 0


async def test_an_upload_whose_client_goes_away_leaves_nothing(storage):
    async def cut() -> AsyncIterator[bytes]:
        yield b"half"
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await storage.files.upload(DEVELOPER, cut())
    assert (storage.contents.under_way, storage.contents.stored) == (0, {})
    await storage.files.upload(DEVELOPER, pieces(b"whole"))


async def test_uploads_end_at_the_callers_quota_and_leave_others_theirs(journal):
    storage = FakeStorage(journal, stored=Shares(8 * LEAST_BYTES, 3 * LEAST_BYTES))
    await left(storage, journal, "e1")
    for content in (b"1", b"2"):
        await storage.files.upload(DEVELOPER, pieces(content))
    assert await storage.files.of_execution(DEVELOPER, "e1") == (), "files of executions make room"
    with pytest.raises(QuotaExceeded):
        await storage.files.upload(DEVELOPER, pieces(b"3"))
    assert (len(await storage.files.uploads(DEVELOPER, 10)), storage.contents.under_way) == (2, 0)
    await storage.files.upload(OTHER_DEVELOPER, pieces(b"3"))


async def test_a_caller_has_a_bounded_number_of_uploads_and_may_send_one_of_them_again(storage):
    sent = [await storage.files.upload(DEVELOPER, pieces(b"%d" % number)) for number in range(RULES.max_uploads)]

    async def unread() -> AsyncIterator[bytes]:
        pytest.fail("it was read")
        yield b""

    with pytest.raises(TooManyUploads, match="You have 4 uploads; at most 4 are kept"):
        await storage.files.upload(DEVELOPER, unread())
    with pytest.raises(TooManyUploads):
        await storage.files.upload(DEVELOPER, unread(), "0" * 64)
    assert (await storage.files.upload(DEVELOPER, pieces(b"0"), sent[0].sha256)).sha256 == sent[0].sha256
    await storage.files.upload(OTHER_DEVELOPER, pieces(b"new"))
    await storage.files.delete_upload(DEVELOPER, sent[1].sha256)
    await storage.files.upload(DEVELOPER, pieces(b"new"))


async def test_two_uploads_at_once_cannot_have_the_last_place(storage):
    for number in range(RULES.max_uploads - 1):
        await storage.files.upload(DEVELOPER, pieces(b"%d" % number))

    async def with_another_meanwhile() -> AsyncIterator[bytes]:
        yield b"first"
        await storage.files.upload(DEVELOPER, pieces(b"second"))

    with pytest.raises(TooManyUploads):
        await storage.files.upload(DEVELOPER, with_another_meanwhile())
    assert len(await storage.files.uploads(DEVELOPER, 10)) == RULES.max_uploads
    assert storage.contents.under_way == 0


async def test_the_oldest_files_of_a_caller_make_room_for_its_new_ones(journal):
    storage = FakeStorage(journal, stored=Shares(100 * LEAST_BYTES, 3 * LEAST_BYTES))
    for number in range(3):
        await left(storage, journal, f"e{number}", str(number).encode(), at=float(number + 1))
    await left(storage, journal, "others", caller=OTHER_DEVELOPER, at=0.5)
    new = Kept((File("new", LEAST_BYTES + 1, "f" * 64),))
    assert await storage.files.settle(storage.files.room_for(DEVELOPER), new) == new
    assert [bool(await storage.index.files_of(id)) for id in ("e0", "e1", "e2", "others")] == [False, False, True, True]


async def test_what_no_quota_has_room_for_is_left_out_by_name(journal):
    storage = FakeStorage(journal, stored=Shares(100 * LEAST_BYTES, LEAST_BYTES))
    await left(storage, journal, "e1")
    huge = Kept((File("huge", 5 * LEAST_BYTES, "f" * 64),))
    kept = await storage.files.settle(storage.files.room_for(DEVELOPER), huge)
    assert (kept.files, kept.left_out[0].why, kept.left_out_count) == ((), Why.QUOTA, 1)
    assert await storage.index.files_of("e1"), "what cannot help is not dropped"


async def test_old_files_and_contents_that_nothing_names_are_removed(journal, monkeypatch):
    monkeypatch.setattr(files_module, "SWEPT_AFTER_SECONDS", -1)
    storage = FakeStorage(journal, rules=replace(RULES, ttl_seconds=3600))
    old = await left(storage, journal, "old", b"old", at=1.0)
    new = await left(storage, journal, "new", b"new")
    used = storage.contents.add(b"in use")
    storage.contents.add(b"nobody's")
    await storage.files.remove_what_is_old(lambda: frozenset({used}))
    assert storage.contents.stored.keys() == {new.sha256, used}
    assert (await storage.files.of_execution(DEVELOPER, "old"), old.bytes) == ((), 3)


async def test_an_upload_that_surely_does_not_fit_is_refused_before_it_is_read_and_costs_no_file(journal):
    storage = FakeStorage(journal, stored=Shares(100 * LEAST_BYTES, 4 * LEAST_BYTES))
    await left(storage, journal, "e1")
    await storage.files.upload(DEVELOPER, pieces(b"1"))

    async def unread() -> AsyncIterator[bytes]:
        pytest.fail("it was read")
        yield b""

    with pytest.raises(QuotaExceeded):
        await storage.files.upload(DEVELOPER, unread(), announced_bytes=3 * LEAST_BYTES)
    assert await storage.files.of_execution(DEVELOPER, "e1")
    assert (storage.contents.under_way, dict(storage.quota._promised)) == (0, {})


async def test_two_uploads_at_once_cannot_have_the_same_room(journal):
    storage = FakeStorage(journal, stored=Shares(100 * LEAST_BYTES, 3 * LEAST_BYTES))
    second = storage.files.upload(DEVELOPER, pieces(b"2" * LEAST_BYTES))

    async def with_another_meanwhile() -> AsyncIterator[bytes]:
        yield b"1"
        with pytest.raises(QuotaExceeded):
            await second

    await storage.files.upload(DEVELOPER, with_another_meanwhile(), announced_bytes=LEAST_BYTES)


async def test_a_content_is_not_swept_between_its_upload_and_its_name(journal, monkeypatch):
    monkeypatch.setattr(files_module, "SWEPT_AFTER_SECONDS", -1)
    storage = FakeStorage(journal)
    add_upload = storage.index.add_upload

    async def add_after_a_sweep(caller, upload):
        await storage.files.remove_what_is_old(frozenset)
        await add_upload(caller, upload)

    monkeypatch.setattr(storage.index, "add_upload", add_after_a_sweep)
    upload = await storage.files.upload(DEVELOPER, pieces(b"content"))
    assert upload.sha256 in storage.contents.stored
    await storage.files.delete_upload(DEVELOPER, upload.sha256)
    await storage.files.remove_what_is_old(frozenset)
    assert storage.contents.stored == {}


async def test_a_content_whose_user_lets_go_of_it_during_a_sweep_is_left(journal, monkeypatch):
    monkeypatch.setattr(files_module, "SWEPT_AFTER_SECONDS", -1)
    storage = FakeStorage(journal)
    used = storage.contents.add(b"in use")
    asked = iter([frozenset({used}), frozenset()])
    await storage.files.remove_what_is_old(lambda: next(asked))
    assert used in storage.contents.stored


async def test_a_sweep_is_due_after_a_time_or_when_much_was_written(storage, monkeypatch):
    assert storage.files.need_sweeping
    await storage.files.remove_what_is_old(frozenset)
    assert not storage.files.need_sweeping
    monkeypatch.setattr(files_module, "SWEPT_EVERY_BYTES", 3)
    monkeypatch.setattr(files_module, "RESTS_FOR_EACH_SECOND", 0)
    storage.files._rest_seconds = 0
    with pytest.raises(DigestMismatch):
        await storage.files.upload(DEVELOPER, pieces(b"abc"), "0" * 64)
    assert storage.files.need_sweeping
    await storage.files.remove_what_is_old(frozenset)
    assert not storage.files.need_sweeping
    monkeypatch.setattr(files_module, "SWEPT_EVERY_SECONDS", 0)
    assert storage.files.need_sweeping


async def test_an_execution_that_gives_many_files_is_looked_up_once(storage, journal, monkeypatch):
    await left(storage, journal, "e1")
    looked_up, find_record = [], journal.find

    async def find_and_note(execution_id):
        looked_up.append(execution_id)
        return await find_record(execution_id)

    monkeypatch.setattr(journal, "find", find_and_note)
    found = await find(storage, {str(number): FromExecution("e1", "a.txt") for number in range(8)})
    assert (len(found), looked_up) == (8, ["e1"])

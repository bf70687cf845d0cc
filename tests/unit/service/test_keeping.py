"""What comes out of a sandbox, and what is made of it."""

import pytest

from orchestrator.domain.files import File, Place, Why
from orchestrator.service.keeping import MAX_TOLD, WRITE_BYTES, Keeper
from tests.support.fake_storage import FakeContents


@pytest.fixture
def contents():
    return FakeContents()


async def hand_over(keeper, name: bytes, content: bytes, place=Place.OUT):
    await keeper.begin(place, name, len(content))
    for start in range(0, len(content), 65_536):
        await keeper.write(content[start : start + 65_536])
    await keeper.end()


async def test_a_file_is_kept_by_its_hash_with_its_name_and_kind(contents):
    keeper = Keeper(contents, {})
    await hand_over(keeper, b"data/a.csv", b"x" * (WRITE_BYTES + 5))
    await hand_over(keeper, b"empty", b"")
    await keeper.close({})
    report, empty = keeper.kept(Place.OUT).files
    assert (report.name, report.bytes, report.media_type) == ("data/a.csv", WRITE_BYTES + 5, "text/csv")
    assert (empty.bytes, contents.stored[empty.sha256][0]) == (0, b"")
    assert (keeper.complete, contents.under_way) == (True, 0)


async def test_what_is_not_whole_is_lost_and_said(contents):
    keeper = Keeper(contents, {})
    await keeper.begin(Place.OUT, b"cut", 10)
    await keeper.write(b"half")
    await hand_over(keeper, b"whole", b"whole")
    await keeper.begin(Place.OUT, b"last", 10)
    await keeper.abandon()
    kept = keeper.kept(Place.OUT)
    assert [file.name for file in kept.files] == ["whole"]
    assert [(each.name, each.why) for each in kept.left_out] == [("cut", Why.LOST), ("last", Why.LOST)]
    assert (keeper.complete, contents.under_way) == (False, 0)


async def test_names_are_spelled_out_where_they_are_no_text_but_never_twice_the_same(contents):
    keeper = Keeper(contents, {})
    for name in (b"caf\xe9", b"caf\\xe9", b"x" * 300, b"../up"):
        await hand_over(keeper, name, b"1")
    kept = keeper.kept(Place.OUT)
    assert [file.name for file in kept.files] == ["caf\\xe9"]
    assert {each.why for each in kept.left_out} == {Why.BAD_NAME}
    assert (kept.left_out_count, contents.under_way) == (3, 0)


async def test_in_a_workspace_a_name_comes_back_as_it_was_or_not_at_all(contents):
    keeper = Keeper(contents, {})
    await hand_over(keeper, b"caf\xe9", b"1", Place.WORKSPACE)
    await hand_over(keeper, "café".encode(), b"1", Place.WORKSPACE)
    kept = keeper.kept(Place.WORKSPACE)
    assert ([file.name for file in kept.files], kept.left_out[0].why) == (["café"], Why.BAD_NAME)


async def test_what_was_brought_and_left_as_it_was_is_not_sent_again(contents):
    brought = File("notes.md", 5, contents.add(b"notes"), "text/markdown")
    keeper = Keeper(contents, {(Place.WORKSPACE, "notes.md"): brought})
    await keeper.unchanged(Place.WORKSPACE, b"notes.md")
    await keeper.unchanged(Place.WORKSPACE, b"never brought")
    kept = keeper.kept(Place.WORKSPACE)
    assert (kept.files, kept.left_out[0].why) == ((brought,), Why.LOST)


async def test_of_many_left_out_some_are_named_and_all_are_counted(contents):
    keeper = Keeper(contents, {})
    for number in range(MAX_TOLD + 5):
        await keeper.leave_out(Place.OUT, f"{number}\x1b".encode(), 1, Why.TOO_MANY)
    await keeper.close({Place.OUT: 100_000})
    kept = keeper.kept(Place.OUT)
    assert (len(kept.left_out), kept.left_out_count, kept.left_out[0].name) == (MAX_TOLD, 100_000, "0\\x1b")


async def test_what_the_sandbox_left_out_and_what_was_refused_here_add_up(contents):
    keeper = Keeper(contents, {})
    for number in range(MAX_TOLD):
        await keeper.leave_out(Place.OUT, b"%d" % number, 1, Why.TOO_LARGE)
    for number in range(5):
        await hand_over(keeper, b"x" * (300 + number), b"1")
    await keeper.close({Place.OUT: 30})
    kept = keeper.kept(Place.OUT)
    assert (len(kept.left_out), kept.left_out_count) == (MAX_TOLD, 35)


@pytest.mark.parametrize("full", [False, True])
async def test_a_file_that_breaks_off_is_left_out_once(contents, full):
    keeper = Keeper(contents, {})
    contents.full = full
    await keeper.begin(Place.OUT, b"cut", 2 * WRITE_BYTES)
    await keeper.write(b"x" * WRITE_BYTES)
    await keeper.leave_out(Place.OUT, b"cut", 2 * WRITE_BYTES, Why.LOST)
    await keeper.close({Place.OUT: 1})
    kept = keeper.kept(Place.OUT)
    assert [(each.name, each.why) for each in kept.left_out] == [("cut", Why.QUOTA if full else Why.LOST)]
    assert (kept.left_out_count, contents.under_way) == (1, 0)


async def test_a_full_disk_leaves_out_what_it_cannot_take_and_ends_nothing(contents):
    keeper = Keeper(contents, {})
    await hand_over(keeper, b"before", b"1")
    contents.full = True
    await hand_over(keeper, b"too late", b"2" * (2 * WRITE_BYTES))
    await hand_over(keeper, b"even later", b"3")
    await keeper.close({})
    kept = keeper.kept(Place.OUT)
    assert [file.name for file in kept.files] == ["before"]
    assert [(each.name, each.why) for each in kept.left_out] == [("too late", Why.QUOTA), ("even later", Why.QUOTA)]


async def test_a_disk_that_is_full_keeps_no_half_of_a_file(contents):
    keeper = Keeper(contents, {})
    await keeper.begin(Place.OUT, b"a", WRITE_BYTES)
    contents.full = True
    await keeper.write(b"x" * WRITE_BYTES)
    assert contents.under_way == 0
    await hand_over(keeper, b"b", b"1")
    assert [each.why for each in keeper.kept(Place.OUT).left_out] == [Why.QUOTA, Why.QUOTA]


async def test_what_came_and_what_was_brought_is_told_by_its_hash(contents):
    brought = File("old", 1, "b" * 64)
    keeper = Keeper(contents, {(Place.WORKSPACE, "old"): brought})
    await hand_over(keeper, b"new", b"1")
    (new,) = keeper.kept(Place.OUT).files
    assert keeper.contents == {brought.sha256, new.sha256}

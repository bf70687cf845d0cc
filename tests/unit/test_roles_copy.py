"""A copy of the role file that follows it, however it is replaced, and is never half of one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator.adapters.access_files import MAX_ROLES_BYTES
from orchestrator.roles_copy import MAX_BYTES, content_of, hand_on
from orchestrator.settings import PROJECT

PROGRAM = PROJECT / "orchestrator" / "roles_copy.py"
WITHIN_SECONDS = 5.0


def until(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + WITHIN_SECONDS
    while not condition():
        assert time.monotonic() < give_up, "it did not happen"
        time.sleep(0.02)


class Place:
    def __init__(self, directory: Path) -> None:
        self.source, self.copy = directory / "roles.json", directory / "seen" / "roles.json"
        self.copy.parent.mkdir()
        self.source.write_text("first")

    def shows(self, content: str) -> bool:
        return self.copy.exists() and self.copy.read_text() == content


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    # As in its container: nothing is there but Python.
    process = subprocess.Popen((sys.executable, "-ISB", PROGRAM, made.source, made.copy), stderr=subprocess.DEVNULL)
    try:
        until(lambda: made.shows("first"))
        yield made
    finally:
        process.terminate()
        assert process.wait(10) == 0


def write_in_place(file: Path, content: str) -> None:
    file.write_text(content)


def move_over(file: Path, content: str) -> None:
    fresh = file.with_name("new")
    fresh.write_text(content)
    subprocess.run(("mv", fresh, file), check=True)


def sed(file: Path, content: str) -> None:
    subprocess.run(("sed", "-i", f"s/.*/{content}/", file), check=True)


def as_editors_do(file: Path, content: str) -> None:
    """Put the old one aside, write a new one under its name, then remove the old one."""
    file.rename(f"{file}~")
    file.write_text(content)
    os.unlink(f"{file}~")


def through_a_link(file: Path, content: str) -> None:
    target = file.with_name("target.json")
    target.write_text(content)
    file.unlink()
    file.symlink_to(target.name)


@pytest.mark.processes
@pytest.mark.parametrize("change", [write_in_place, move_over, sed, as_editors_do, through_a_link])
def test_a_change_is_seen_however_it_is_made(place: Place, change: Callable[[Path, str], None]) -> None:
    for content in ("second", "third"):
        change(place.source, content)
        until(lambda wanted=content: place.shows(wanted))  # type: ignore[misc]
    assert place.copy.stat().st_mode & 0o777 == 0o644


@pytest.mark.processes
def test_a_file_that_is_gone_leaves_no_copy_and_comes_back(place: Place) -> None:
    place.source.unlink()
    until(lambda: not place.copy.exists())
    place.source.write_text("again")
    until(lambda: place.shows("again"))


@pytest.mark.processes
def test_a_pipe_or_a_directory_of_that_name_keeps_nobody_waiting(place: Place) -> None:
    place.source.unlink()
    os.mkfifo(place.source)
    until(lambda: not place.copy.exists())
    place.source.unlink()
    place.source.mkdir()
    place.source.rmdir()
    place.source.write_text("again")
    until(lambda: place.shows("again"))


@pytest.mark.processes
def test_the_comparison_tells_an_old_copy(place: Place) -> None:
    def compared() -> int:
        return subprocess.run((sys.executable, "-ISB", PROGRAM, "--check", place.source, place.copy)).returncode

    assert compared() == 0
    place.copy.write_text("older")  # nothing has changed at the source, so it stays
    assert compared() == 1


def test_what_is_too_large_is_cut_where_the_daemon_still_sees_that_it_is(tmp_path: Path) -> None:
    source = tmp_path / "roles.json"
    with source.open("wb") as file:
        file.truncate(10 * MAX_BYTES)
    assert len(content_of(source) or b"") == MAX_BYTES > MAX_ROLES_BYTES


def test_the_copy_is_replaced_and_never_written_in_place(tmp_path: Path) -> None:
    copy = tmp_path / "roles.json"
    hand_on(b"one", copy)
    with copy.open("rb") as opened:
        hand_on(b"two", copy)
        assert opened.read() == b"one"
    assert copy.read_bytes() == b"two"
    hand_on(None, copy)
    hand_on(None, copy)
    assert not copy.exists()


def test_it_needs_nothing_but_python() -> None:
    imported = re.findall(r"^(?:import|from) (\w+)", PROGRAM.read_text(), flags=re.MULTILINE)
    assert set(imported) <= set(sys.stdlib_module_names)

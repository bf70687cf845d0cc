"""A backup of living data that can be restored, and what is refused instead of restored."""

from __future__ import annotations

import gzip
import io
import os
import re
import sqlite3
import subprocess
import sys
import tarfile
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from orchestrator.journals.schema import bring_up_to_date, migrations
from scripts.inside import data_backup
from scripts.inside.data_backup import INCOMING, OUTGOING, Refused, back_up, check, restore
from tests.unit.setup.machine import PROJECT, Ready, Tree, answering

KNOWN = migrations()[-1][0]
INSERT = (
    "INSERT INTO executions (id, caller, role, kind, instance, state, accepted_at, document)"
    " VALUES (?, 'c', 'r', 'program', 'i', 'finished', ?, '{}')"
)


def opened(data: Path) -> sqlite3.Connection:
    database = sqlite3.connect(data / "journal.sqlite3", isolation_level=None, check_same_thread=False)
    database.execute("PRAGMA journal_mode = WAL")
    bring_up_to_date(database)
    return database


def add(database: sqlite3.Connection, name: str, accepted_at: float) -> None:
    database.execute(INSERT, (name, accepted_at))


def names(data: Path) -> list[str]:
    with closing(sqlite3.connect(data / "journal.sqlite3")) as database:
        return [name for (name,) in database.execute("SELECT id FROM executions ORDER BY accepted_at")]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    made = tmp_path / "data"
    made.mkdir()
    (made / "instance-id").write_text("0123")
    return made


@pytest.fixture
def living(data: Path) -> Iterator[sqlite3.Connection]:
    """The journal of a daemon that runs: what was written last is in the log beside it only."""
    with closing(opened(data)) as database:
        database.execute("PRAGMA wal_autocheckpoint = 0")
        yield database


def backup_of(data: Path) -> io.BytesIO:
    archive = io.BytesIO()
    back_up(data, archive)
    return io.BytesIO(archive.getvalue())


def test_what_only_the_log_has_is_in_the_backup_and_nothing_is_changed(data: Path, living: sqlite3.Connection) -> None:
    add(living, "one", 1.0)
    before = {path.name: path.stat().st_ino for path in data.iterdir()}
    archive = backup_of(data)
    assert {path.name: path.stat().st_ino for path in data.iterdir()} == before
    other = data.with_name("other")
    other.mkdir()
    restore(other, archive, KNOWN, force=False)
    assert names(other) == ["one"]
    assert sorted(path.name for path in other.iterdir()) == ["instance-id", "journal.sqlite3"]


def test_every_other_file_comes_along_with_its_rights(data: Path, living: sqlite3.Connection) -> None:
    deep = data / "files" / "ab" / "cd"
    deep.parent.mkdir(parents=True, mode=0o700)
    deep.write_bytes(os.urandom(100_000))
    deep.chmod(0o600)
    os.link(deep, data / "files" / "second name")
    (data / "workspaces").mkdir(mode=0o700)
    (data / "strange \udcff name").write_text("x")
    (data / "link").symlink_to("/etc/passwd")
    os.mkfifo(data / "pipe")
    other = data.with_name("other")
    other.mkdir()
    restore(other, backup_of(data), KNOWN, force=False)
    for name in ("files/ab/cd", "files/second name"):
        assert (other / name).read_bytes() == deep.read_bytes()
    assert (other / "files" / "ab" / "cd").stat().st_mode & 0o777 == 0o600
    assert (other / "workspaces").is_dir()
    assert (other / "strange \udcff name").exists()
    assert not (other / "link").is_symlink()
    assert not (other / "pipe").exists()


def test_a_second_database_is_copied_as_a_database(data: Path) -> None:
    with closing(sqlite3.connect(data / "skills.db", isolation_level=None)) as second:
        second.execute("PRAGMA journal_mode = WAL")
        second.execute("CREATE TABLE t (x)")
        second.execute("INSERT INTO t VALUES (7)")
        archive = backup_of(data)
    other = data.with_name("other")
    other.mkdir()
    restore(other, archive, KNOWN, force=False)
    with closing(sqlite3.connect(other / "skills.db")) as restored:
        assert restored.execute("SELECT x FROM t").fetchone() == (7,)


def test_while_somebody_writes_the_backup_has_a_moment_and_not_a_mixture(
    data: Path, living: sqlite3.Connection
) -> None:
    """Two rows in one transaction, again and again: a copy of the files would catch one of them now and then."""
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            living.execute("BEGIN IMMEDIATE")
            for half in ("a", "b"):
                add(living, f"{number}{half}", float(number))
            living.execute("COMMIT")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        give_up = time.monotonic() + 10
        while not names(data) and time.monotonic() < give_up:
            pass
        archives = [backup_of(data) for _ in range(3)]
    finally:
        stop.set()
        writer.join()
    for number, archive in enumerate(archives):
        other = data.with_name(f"other{number}")
        other.mkdir()
        restore(other, archive, KNOWN, force=False)
        found = names(other)
        assert found
        assert len(found) % 2 == 0


def test_newer_data_is_not_replaced_unless_it_is_forced(data: Path, living: sqlite3.Connection) -> None:
    add(living, "one", 1.0)
    archive = backup_of(data)
    restore(data, archive, KNOWN, force=False)  # the same data is no newer
    add_newer(data)
    for attempt in (check, restore):
        archive.seek(0)
        with pytest.raises(Refused, match=r"There is newer data: 2 executions.*FORCE=1"):
            attempt(data, archive, KNOWN, force=False)
    assert names(data) == ["one", "two"]
    archive.seek(0)
    restore(data, archive, KNOWN, force=True)
    assert names(data) == ["one"]


def add_newer(data: Path) -> None:
    with closing(sqlite3.connect(data / "journal.sqlite3", isolation_level=None)) as database:
        add(database, "two", 2.0)


def test_what_is_there_is_replaced_whole(data: Path) -> None:
    with closing(opened(data)) as database:
        add(database, "one", 1.0)
    archive = backup_of(data)
    (data / "files").mkdir()
    (data / "files" / "of later").write_text("x")
    restore(data, archive, KNOWN, force=False)
    assert sorted(path.name for path in data.iterdir()) == ["instance-id", "journal.sqlite3"]


def test_a_backup_of_a_newer_version_is_refused(data: Path, living: sqlite3.Connection) -> None:
    with pytest.raises(Refused, match="newer version"):
        check(data, backup_of(data), KNOWN - 1, force=True)


def with_member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> io.BytesIO:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as file:
        manifest = b'{"format": 1, "made_at": 0, "version": 0, "executions": 0, "newest": null}'
        first = tarfile.TarInfo("backup.json")
        first.size = len(manifest)
        file.addfile(first, io.BytesIO(manifest))
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, target
        file.addfile(member)
    return io.BytesIO(archive.getvalue())


@pytest.mark.parametrize(
    "archive",
    [
        with_member("../outside"),
        with_member("/tmp/outside"),
        with_member("files/../../outside"),
        with_member("link", tarfile.SYMTYPE, "/etc/passwd"),
        with_member("link", tarfile.LNKTYPE, "../outside"),
        with_member("device", tarfile.CHRTYPE),
        with_member("pipe", tarfile.FIFOTYPE),
        with_member(".restoring/x"),
        with_member(".replaced/x"),
        io.BytesIO(b"no archive at all"),
        io.BytesIO(b""),
    ],
)
def test_what_is_no_backup_changes_nothing(data: Path, archive: io.BytesIO) -> None:
    with pytest.raises(Refused):
        restore(data, archive, KNOWN, force=True)
    assert sorted(path.name for path in data.iterdir()) == ["instance-id"]
    assert not (data.parent / "outside").exists()
    restore(data, with_member("plain"), KNOWN, force=True)  # the control
    assert sorted(path.name for path in data.iterdir()) == ["plain"]


def test_a_backup_that_breaks_off_changes_nothing(data: Path) -> None:
    (data / "large").write_bytes(os.urandom(200_000))
    whole = backup_of(data).getvalue()
    for length in (100, len(whole) // 2):
        with pytest.raises(Refused):
            restore(data, io.BytesIO(whole[:length]), KNOWN, force=True)
    assert sorted(path.name for path in data.iterdir()) == ["instance-id", "large"]


@pytest.mark.parametrize("attempt", [check, restore])
def test_a_backup_that_is_damaged_anywhere_or_breaks_off_between_two_files_is_refused(data: Path, attempt: Any) -> None:
    for number in range(20):
        (data / f"file{number:02}").write_bytes(os.urandom(3000))
    whole = backup_of(data).getvalue()
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 1  # in a file that is no database, which nothing but the checksum tells
    # Cut where the archive has a whole number of files: it ends like one that is complete.
    unpacked = gzip.decompress(whole)
    with tarfile.open(fileobj=io.BytesIO(unpacked)) as archive:
        between = archive.getmember("file10").offset
    packed = zlib.compressobj(wbits=31)
    cut = packed.compress(unpacked[:between]) + packed.flush(zlib.Z_SYNC_FLUSH)
    for spoiled in (bytes(damaged), cut, whole[:-4]):
        with pytest.raises(Refused):
            attempt(data, io.BytesIO(spoiled), KNOWN, force=True)
    assert len(list(data.iterdir())) == 21
    attempt(data, io.BytesIO(whole), KNOWN, force=True)  # the control


def test_what_was_there_is_back_if_the_exchange_cannot_be_finished(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = backup_of(data)
    (data / "of later").write_text("x")
    rename = Path.rename

    def fails_on_the_way_in(path: Path, target: Path) -> Path:
        if path.parent.name == INCOMING:
            raise OSError("no")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fails_on_the_way_in)
    with pytest.raises(OSError, match="no"):
        restore(data, archive, KNOWN, force=True)
    assert sorted(path.name for path in data.iterdir()) == ["instance-id", "of later"]


def test_a_damaged_database_is_not_put_in_place(data: Path) -> None:
    with closing(opened(data)) as database:
        for number in range(500):
            add(database, str(number), float(number))
    other = data.with_name("other")
    other.mkdir()
    content = bytearray((data / "journal.sqlite3").read_bytes())
    content[4096 * 3 : 4096 * 5] = b"\xff" * 8192
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as file:
        with tarfile.open(fileobj=backup_of(data), mode="r:gz") as sound:
            manifest = sound.getmember("backup.json")
            file.addfile(manifest, sound.extractfile(manifest))
        member = tarfile.TarInfo("journal.sqlite3")
        member.size = len(content)
        file.addfile(member, io.BytesIO(bytes(content)))
    for attempt in (check, restore):
        with pytest.raises(Refused, match="damaged"):
            attempt(other, io.BytesIO(archive.getvalue()), KNOWN, force=True)
    assert list(other.iterdir()) == []


def test_a_damaged_file_of_a_caller_is_restored_by_force_only(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    digest = sha256(b"whole").hexdigest()
    content = data / "contents" / digest[:2] / digest
    content.parent.mkdir(parents=True)
    content.write_bytes(b"whole")
    check(data, backup_of(data), KNOWN, force=False)
    content.write_bytes(b"other")
    archive = backup_of(data).getvalue()
    with pytest.raises(Refused, match="1 of the files that callers left are damaged"):
        check(data, io.BytesIO(archive), KNOWN, force=False)
    capsys.readouterr()
    check(data, io.BytesIO(archive), KNOWN, force=True)
    assert "1 of the files that callers left are damaged in the backup." in capsys.readouterr().err


def test_what_an_earlier_attempt_left_is_neither_kept_nor_backed_up(data: Path) -> None:
    for left in (INCOMING, OUTGOING):
        (data / left).mkdir()
        (data / left / "junk").write_text("x")
    archive = backup_of(data)
    restore(data, archive, KNOWN, force=False)
    assert sorted(path.name for path in data.iterdir()) == ["instance-id"]


def test_it_needs_nothing_but_python() -> None:
    """It runs in a container of an older version, too, whose packages nobody knows."""
    program = (PROJECT / "scripts" / "inside" / "data_backup.py").read_text()
    ended = subprocess.run(
        (sys.executable, "-ISB", "-c", program, "check", "/nowhere", "1"), input=b"", capture_output=True
    )
    assert ended.returncode == data_backup.REFUSED


# --- the two scripts ---

DOCKER = """
case "$*" in
"run "*" backup /var/lib/code-executor") echo data; echo "3 executions" >&2 ;;
"run "*) cat >/dev/null; echo "3 executions" >&2 ;;
"container inspect "*) pwd ;;
"inspect "*) echo true ;;
esac"""


def test_a_backup_is_a_file_of_its_own_for_nobody_else(tree: Tree) -> None:
    tree.command("docker", DOCKER)
    ended = tree.run("scripts/backup.sh", FILE="kept/mine.tar.gz")
    assert ended.returncode == 0, ended.stderr
    file = tree.path / "kept" / "mine.tar.gz"
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("data\n", 0o600)
    assert "3 executions" in ended.stdout
    again = tree.run("scripts/backup.sh", FILE="kept/mine.tar.gz")
    assert again.returncode == 1
    assert "FORCE=1" in again.stderr
    assert tree.run("scripts/backup.sh", FILE="kept/mine.tar.gz", FORCE="1").returncode == 0
    assert tree.run("scripts/backup.sh").returncode == 0
    assert len(list((tree.path / "backups").glob("code-executor-*.tar.gz"))) == 1


def test_a_backup_that_fails_leaves_no_file(tree: Tree) -> None:
    tree.command("docker", 'case "$*" in "run "*) echo half; exit 1 ;; esac')
    assert tree.run("scripts/backup.sh", FILE="mine.tar.gz").returncode == 1
    assert not list(tree.path.glob("mine*"))


def test_without_data_there_is_nothing_to_back_up(tree: Tree) -> None:
    tree.command("docker", 'case "$*" in "volume inspect "*) exit 1 ;; esac')
    ended = tree.run("scripts/backup.sh")
    assert ended.returncode == 1
    assert "There is no data yet" in ended.stderr


def test_a_restore_stops_the_daemon_only_after_the_backup_was_looked_at_and_starts_it_again(tree: Tree) -> None:
    tree.command("docker", DOCKER)
    (tree.path / "orchestrator" / "journals" / "migrations").mkdir(parents=True)
    (tree.path / "orchestrator" / "journals" / "migrations" / "0012_later.sql").touch()
    (tree.path / "mine.tar.gz").write_text("x")
    with answering(Ready) as address:
        ended = tree.run("scripts/restore.sh", FILE="mine.tar.gz", FORCE="1", CODE_EXECUTOR_PUBLISH=address)
    assert ended.returncode == 0, ended.stderr
    # The program is an argument of many lines, and its own arguments come after the last of them.
    done = [call for call in tree.calls() if re.match(r"docker (stop|start)|    sys\.exit\(main", call)]
    steps = [" ".join(call.split()[1:]) for call in done]
    place = "/var/lib/code-executor"
    assert steps == [
        f"check {place} 12 --force",
        "stop --time 30 mcp-code-executor",
        f"restore {place} 12 --force",
        "start mcp-code-executor",
    ]


def test_a_backup_that_is_refused_leaves_the_daemon_alone(tree: Tree) -> None:
    tree.command(
        "docker", DOCKER.replace('cat >/dev/null; echo "3 executions" >&2', "echo 'There is newer data' >&2; exit 3")
    )
    (tree.path / "orchestrator" / "journals" / "migrations").mkdir(parents=True)
    (tree.path / "orchestrator" / "journals" / "migrations" / "0003_x.sql").touch()
    (tree.path / "mine.tar.gz").write_text("x")
    ended = tree.run("scripts/restore.sh", FILE="mine.tar.gz")
    assert ended.returncode == 1
    assert "There is newer data" in ended.stderr
    assert "Nothing was changed." in ended.stderr
    assert not [call for call in tree.calls() if call.startswith(("docker stop", "docker start"))]


def test_a_restore_that_fails_starts_the_daemon_again(tree: Tree) -> None:
    fails = '"run "*" restore /var/lib/code-executor 3") echo "no space" >&2; exit 1 ;;'
    tree.command("docker", DOCKER.replace('"run "*) cat', f'{fails}\n"run "*) cat'))
    (tree.path / "orchestrator" / "journals" / "migrations").mkdir(parents=True)
    (tree.path / "orchestrator" / "journals" / "migrations" / "0003_x.sql").touch()
    (tree.path / "mine.tar.gz").write_text("x")
    with answering(Ready) as address:
        ended = tree.run("scripts/restore.sh", FILE="mine.tar.gz", CODE_EXECUTOR_PUBLISH=address)
    assert ended.returncode == 1
    assert "no space" in ended.stderr
    assert "restored" not in ended.stdout
    assert "docker start mcp-code-executor" in tree.calls()


def test_a_restore_asks_for_its_file(tree: Tree) -> None:
    ended = tree.run("scripts/restore.sh")
    assert ended.returncode == 1
    assert "make restore FILE=" in ended.stderr

"""What is brought to a program and what it leaves, seen through the supervisor's protocol."""

from __future__ import annotations

import os
import shutil
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from supervision import frames, orders
from supervision.brought import Brought
from supervision.handover import Handover
from supervision.outbox import PAUSE_ABOVE_BYTES, Outbox

from tests.unit.runner import supervised as supervised_module
from tests.unit.runner.supervised import PATIENCE_SECONDS, RUNNER, Left, Supervised

Start = Callable[..., Supervised]

PLENTY = (100, 1_000_000, 10_000_000)
OUT = {"o": PLENTY}
BOTH = {"o": PLENTY, "f": PLENTY}
MANY_BYTES = 4 * PAUSE_ABOVE_BYTES
CLIENT_LIBRARY = RUNNER.parent / "client-library"


def why(ended_left_out: list[Left]) -> dict[bytes, str]:
    return {each.name: each.why for each in ended_left_out}


class TestBringing:
    def test_what_is_brought_is_there_in_one_piece(self, python: Supervised) -> None:
        python.bring("in/deep/data.bin", b"a" * 200_000, b"b" * 100_000)
        python.bring("in/empty", b"")
        code = "d = open('in/deep/data.bin').read(); print(len(d), d[199_999:200_001], open('in/empty').read() == '')"
        assert python.run(code).output == "300000 ab True\n"

    def test_pieces_of_several_files_may_come_in_turns(self, python: Supervised) -> None:
        for piece in (b"1", b"2"):
            python.bring("in/a", b"a" + piece)
            python.bring("in/b", b"b" + piece)
        assert python.run("print(open('in/a').read(), open('in/b').read())").output == "a1a2 b1b2\n"

    def test_the_folders_for_files_are_always_there_and_that_of_a_workspace_only_when_asked_for(
        self, start: Start
    ) -> None:
        code = "import os; print(sorted(name for name in os.listdir() if os.path.isdir(name)))"
        assert start("python", sys.executable).run(code).output == "['in', 'out']\n"
        assert start("python", sys.executable).run(code, places=BOTH).output == "['files', 'in', 'out']\n"

    def test_what_cannot_be_written_is_a_fault_that_names_the_file(self, python: Supervised) -> None:
        python.expect("R")
        python.bring("in/a", b"")
        python.bring("in/a/b", b"")
        assert "cannot write 'in/a/b'" in python.expect("X").payload.decode()
        assert python.wait() == 70

    def test_nothing_can_be_brought_to_a_program_that_runs(self, python: Supervised) -> None:
        python.expect("R")
        python.start("while True: pass")
        python.bring("in/late", b"")
        assert "only a stop may follow" in python.expect("X").payload.decode()
        assert python.wait() == 70


class TestLeaving:
    def test_nothing_is_said_of_files_that_nobody_asked_for(self, python: Supervised) -> None:
        ended = python.run("open('out/a', 'w').write('a')")
        assert (ended.files, ended.left_out_count) == ({}, None)

    def test_an_empty_folder_costs_one_frame(self, python: Supervised) -> None:
        ended = python.run("pass", places=BOTH)
        assert (ended.files, ended.left_out, ended.left_out_count) == ({}, [], {"out": 0, "files": 0})

    def test_files_come_whole_in_the_order_of_their_names_with_those_below_folders(self, python: Supervised) -> None:
        code = """
            import os
            os.makedirs('out/b/c')
            for name, size in {'z': 3, 'a': 0, 'b/c/large': 200_000, 'b.txt': 1, 'b/a': 2}.items():
                open(f'out/{name}', 'wb').write(bytes([65 + size % 26]) * size)
            open('files/w', 'w').write('w')
        """
        ended = python.run("if True:\n" + code, places=BOTH)
        assert list(ended.files.items()) == [
            ("o:a", b""),
            ("o:b/a", b"CC"),
            ("o:b/c/large", b"I" * 200_000),
            ("o:b.txt", b"B"),
            ("o:z", b"DDD"),
            ("f:w", b"w"),
        ]
        assert ended.left_out_count == {"out": 0, "files": 0}

    @pytest.mark.parametrize(
        ("ends", "ending", "options"),
        [
            ("raise SystemExit(3)", "exited", {}),
            ("while True: pass", "timed_out", {"timeout_seconds": 0.3}),
            ("while True: print('x' * 1000)", "output_limit", {"flood_bytes": 2_000_000}),
            ("import os; os.kill(os.getpid(), 9)", "exited", {}),
        ],
    )
    def test_files_are_handed_over_however_the_program_ends(
        self, python: Supervised, ends: str, ending: str, options: dict[str, float]
    ) -> None:
        ended = python.run("open('out/a', 'w').write('left')\n" + ends, places=OUT, **options)
        assert (ended.report["ending"], ended.files, ended.status) == (ending, {"o:a": b"left"}, 0)

    def test_files_beside_the_folder_are_named_if_nothing_is_in_it(self, python: Supervised) -> None:
        code = """
import os
open('result.csv', 'w').write('left')
os.mkdir('made'); open('made/inner', 'w').close(); os.symlink('main.py', 'link'); os.mkfifo('fifo')
open('in/mine', 'w').close()
"""
        python.prepare({"in/given": "x", "servers/a.py": "x"})
        ended = python.run(code, places=OUT)
        assert (ended.files, ended.left_out) == ({}, [Left("o", b"result.csv", "e", 4)])
        assert ended.left_out_count == {"out": 1}

    def test_files_beside_the_folder_are_not_named_if_something_is_in_it(self, python: Supervised) -> None:
        ended = python.run("open('scratch', 'w').close(); open('out/a', 'w').close()", places=OUT)
        assert (ended.files, ended.left_out) == ({"o:a": b""}, [])

    def test_very_many_files_beside_the_folder_are_counted(self, python: Supervised) -> None:
        ended = python.run("for number in range(3000): open(str(number), 'w').close()", places=OUT)
        assert (len(ended.left_out), ended.left_out_count) == (20, {"out": 3000})

    def test_a_program_that_is_stopped_is_cancelled_and_hands_over_its_files(self, python: Supervised) -> None:
        python.expect("R")
        python.start("open('out/a', 'w').write('left')\nprint('begun', end='')\nwhile True: pass", places=OUT)
        assert python.expect("O").payload == b"begun"
        python.stop()
        python.stop()
        ended = python.finish()
        assert (ended.report["ending"], ended.files, ended.status) == ("cancelled", {"o:a": b"left"}, 0)

    def test_a_stop_before_the_runtime_is_ready_keeps_the_program_from_running(self, start: Start) -> None:
        supervised = start("python", sys.executable)
        supervised.start("print('ran')", places=OUT)
        supervised.stop()
        ended = supervised.finish()
        assert (ended.report["ending"], ended.stdout, ended.left_out_count) == ("cancelled", b"", {"out": 0})

    def test_more_than_the_leash_takes_at_once_arrives_whole(self, python: Supervised) -> None:
        code = f"import random; open('out/a', 'wb').write(random.Random(1).randbytes({MANY_BYTES}))"
        ended = python.run(code, places={"o": (10, MANY_BYTES, MANY_BYTES)})
        assert len(ended.files["o:a"] or b"") == MANY_BYTES
        assert ended.left_out_count == {"out": 0}

    @pytest.mark.parametrize("printed_bytes", [10, MANY_BYTES], ids=["at once", "when the leash takes it"])
    def test_a_handover_that_crashes_loses_the_files_and_not_the_ending(
        self,
        start: Start,
        tmp_path_factory: pytest.TempPathFactory,
        monkeypatch: pytest.MonkeyPatch,
        printed_bytes: int,
    ) -> None:
        runner = shutil.copytree(RUNNER, tmp_path_factory.mktemp("broken") / "runner")
        (runner / "supervision" / "handover.py").write_text("raise MemoryError")
        monkeypatch.setattr(supervised_module, "RUNNER", runner)
        code = f"open('out/a', 'w').write('left')\nprint('x' * {printed_bytes})\nraise SystemExit(3)"
        ended = start("python", sys.executable).run(code, places=OUT, max_output_bytes=2 * MANY_BYTES)
        assert (ended.report["ending"], ended.exit_code, len(ended.stdout)) == ("exited", 3, printed_bytes + 1)
        assert (ended.files, ended.left_out_count, ended.status) == ({}, None, 1)

    @pytest.mark.parametrize(
        "lock",
        [
            "os.chmod('out/deep', 0)",
            "os.chmod('out/deep', 0o600)",
            "os.chmod('out', 0)",
            "os.chmod('out', 0o600)",
            "os.chmod('.', 0)",
            "os.chmod('.', 0o600)",
        ],
    )
    def test_a_folder_that_a_program_locked_is_handed_over(self, start: Start, lock: str) -> None:
        locked = start("python", sys.executable, overrides_modes=False)
        code = f"import os\nos.mkdir('out/deep')\nopen('out/deep/a', 'w').write('left')\n{lock}"
        ended = locked.run(code + "\ntry: open('out/deep/a')\nexcept OSError: print('locked')", places=OUT)
        assert (ended.output, ended.files, ended.left_out) == ("locked\n", {"o:deep/a": b"left"}, [])

    def test_the_end_of_the_leash_in_the_middle_ends_the_supervisor(self, python: Supervised) -> None:
        python.expect("R")
        python.start(f"open('out/a', 'wb').write(bytes({MANY_BYTES}))", places={"o": (10, MANY_BYTES, MANY_BYTES)})
        python.expect("D")
        assert python.expect("N").payload[10:] == b"a"
        python.let_go()
        assert python.wait() == 71

    def test_the_lifetime_ends_a_handover_that_nobody_reads(self, start: Start) -> None:
        supervised = start("python", sys.executable, lifetime_seconds=2.0)
        supervised.expect("R")
        supervised.start(f"open('out/a', 'wb').write(bytes({MANY_BYTES}))", places={"o": (10, MANY_BYTES, MANY_BYTES)})
        supervised.expect("D")
        assert supervised.wait() == 72

    def test_what_is_written_after_the_report_by_one_that_could_not_be_ended_is_not_sent(
        self, python: Supervised, tmp_path: Path
    ) -> None:
        """We are that one: the program hands us its stdout, which keeps the pipe open."""
        code = """
            import os, socket
            with socket.socket(socket.AF_UNIX) as client:
                client.connect('held')
                socket.send_fds(client, [b'!'], [1])
                client.recv(1)
            for number in range(20_000): os.close(os.open(f'out/{number:05}', os.O_CREAT))
        """
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(tmp_path / "held"))
            listener.listen()
            python.expect("R")
            python.start("if True:\n" + code, places={"o": (1, 1, 1)})
            connection, _ = listener.accept()
            with connection:
                _, (stdout, *_), _, _ = socket.recv_fds(connection, 1, 1)
                connection.send(b"!")
        enough = threading.Event()

        def write() -> None:
            with suppress(BrokenPipeError):
                while not enough.wait(0.001):
                    os.write(stdout, b"x")

        writer = threading.Thread(target=write)
        writer.start()
        try:
            ended = python.finish()  # and nothing but files after the report
        finally:
            enough.set()
            writer.join()
            os.close(stdout)
        assert (ended.report["ending"], b"x" in ended.stdout, list(ended.files)) == ("exited", True, ["o:00000"])
        assert ended.left_out_count == {"out": 19_999}


class TestUnchanged:
    def test_a_workspace_that_nobody_touched_is_not_sent_back(self, python: Supervised) -> None:
        python.bring("files/a", b"a" * 100_000, b"b")
        python.bring("files/deep/b", b"")
        python.bring("in/c", b"input")
        ended = python.run("print(open('files/a').read(1))", places=BOTH)
        assert ended.files == {"f:a": None, "f:deep/b": None}

    def test_what_was_changed_added_and_removed_is_told_apart(self, python: Supervised) -> None:
        for name in ("same", "changed", "removed", "renamed", "replaced", "touched"):
            python.bring(f"files/{name}", b"1")
        code = """
            import os
            open('files/changed', 'w').write('2')
            os.remove('files/removed')
            os.rename('files/renamed', 'files/new name')
            os.remove('files/replaced'); os.symlink('same', 'files/replaced')
            os.link('files/touched', 'files/linked')
        """
        ended = python.run("if True:\n" + code, places=BOTH)
        changed = {"f:changed": b"2", "f:linked": b"1", "f:new name": b"1", "f:touched": b"1"}
        assert ended.files == {**changed, "f:same": None}
        assert why(ended.left_out) == {b"replaced": "x"}

    def test_a_change_of_the_same_size_through_a_mapping_is_seen(self, python: Supervised) -> None:
        """In a tmpfs it changes no time of the file if the page was read before."""
        python.bring("files/counter", b"1")
        code = """
            import mmap
            with open('files/counter', 'r+b') as file, mmap.mmap(file.fileno(), 1) as mapped:
                mapped[0] += 1 if mapped[0] == 49 else 9
        """
        assert python.run("if True:\n" + code, places=BOTH).files == {"f:counter": b"2"}


class TestLeftOut:
    def test_what_is_over_a_limit_is_named_and_what_still_fits_is_taken(self, python: Supervised) -> None:
        sizes = {"a": 60, "b": 101, "c": 50, "d": 30}
        code = f"for name, size in {sizes}.items(): open(f'out/{{name}}', 'wb').write(bytes(size))"
        ended = python.run(code, places={"o": (10, 100, 100)})
        assert list(ended.files) == ["o:a", "o:d"]
        assert ended.left_out == [Left("o", b"b", "l", 101), Left("o", b"c", "r", 50)]
        assert ended.left_out_count == {"out": 2}

    def test_of_too_many_the_first_are_taken_some_named_and_all_counted(self, python: Supervised) -> None:
        code = "for number in range(2000): open(f'out/{number:04}', 'wb').write(b'x' * 7)"
        ended = python.run(code, places={"o": (3, 100, 100)})
        assert list(ended.files) == ["o:0000", "o:0001", "o:0002"]
        assert ended.left_out == [Left("o", b"%04d" % number, "m", 7) for number in range(3, 23)]
        assert ended.left_out_count == {"out": 1997}

    def test_only_regular_files_are_opened_and_no_link_is_followed(self, python: Supervised, tmp_path: Path) -> None:
        secret = tmp_path / "secret"
        secret.mkdir()
        (secret / "s").write_text("secret")
        code = """
            import os, socket
            os.symlink('../secret/s', 'out/link')
            os.symlink('../secret', 'out/folder')
            os.symlink('nowhere', 'out/dangling')
            os.mkfifo('out/fifo')
            socket.socket(socket.AF_UNIX).bind('out/socket')
            open('out/file', 'w').write('file')
        """
        ended = python.run("if True:\n" + code, places=OUT)
        assert ended.files == {"o:file": b"file"}
        assert why(ended.left_out) == dict.fromkeys((b"link", b"folder", b"dangling", b"fifo", b"socket"), "x")

    @pytest.mark.parametrize("replacement", ["os.symlink('/etc', 'out')", "open('out', 'w')", "os.mkfifo('out')"])
    def test_a_folder_that_was_replaced_is_not_entered(self, python: Supervised, replacement: str) -> None:
        ended = python.run(f"import os; os.rmdir('out'); {replacement}", places=OUT)
        assert (ended.files, why(ended.left_out), ended.left_out_count) == ({}, {b".": "x"}, {"out": 1})

    def test_a_folder_that_was_removed_holds_nothing(self, python: Supervised) -> None:
        ended = python.run("import os; os.rmdir('out')", places=OUT)
        assert (ended.files, ended.left_out_count) == ({}, {"out": 0})

    def test_names_deeper_than_the_limit_are_left_out_with_all_below(self, python: Supervised) -> None:
        code = """
            import os
            for level in range(40):
                open(('out/' if not level else '') + 'f', 'w').close()
                os.mkdir('out/d' if not level else 'd')
                os.chdir('out/d' if not level else 'd')
        """
        ended = python.run("if True:\n" + code, places=OUT)
        assert sorted(ended.files) == sorted("o:" + "d/" * level + "f" for level in range(32))
        assert ended.left_out == [Left("o", b"/".join([b"d"] * 32), "d", 0)]

    def test_names_are_any_bytes(self, python: Supervised) -> None:
        names = [b"\xe9t\xe9", b"new\nline", b"\x1b[31m", "\u202eevil".encode(), b"x" * 255]
        ended = python.run(f"for name in {names}: open(b'out/' + name, 'wb').write(name)", places=OUT)
        assert {os.fsencode(name[2:]): content for name, content in ended.files.items()} == {n: n for n in names}


def test_a_folder_that_cannot_be_listed_may_hold_something_and_is_left_out_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out" / "deep").mkdir(parents=True)
    read_end, write_end = os.pipe()
    handover = Handover(str(tmp_path), (orders.Place(b"o", *PLENTY),), Brought(), frozenset(), Outbox(write_end))
    opened = len(os.listdir("/proc/self/fd"))

    def fail(*_: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", fail)
        assert orders.holds_anything(str(tmp_path / "out"))
    first_lists_then_fails = iter([os.scandir, fail])

    def list_or_fail(directory: int) -> object:
        return next(first_lists_then_fails)(directory)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", list_or_fail)
        while handover.go_on():
            pass
    handover._outbox.flush()
    said = [(kind, payload[10:]) for kind, payload in frames.FrameDecoder().feed(os.read(read_end, 65_536))]
    assert said[0] == (frames.LEFT_OUT, b"deep")
    assert [kind for kind, _ in said[1:]] == [frames.HANDED_OVER]
    assert len(os.listdir("/proc/self/fd")) == opened
    os.close(read_end)
    os.close(write_end)


def test_a_reader_that_rests_does_not_make_the_supervisor_hold_more_than_its_outbox(python: Supervised) -> None:
    size = 64 * PAUSE_ABOVE_BYTES
    python.expect("R")
    python.start(f"open('out/a', 'wb').truncate({size})", places={"o": (1, size, size)})
    python.expect("D")
    resident = Path(f"/proc/{python.process.pid}/statm").read_text().split()[1]
    assert int(resident) * os.sysconf("SC_PAGESIZE") < size
    ends = time.monotonic() + PATIENCE_SECONDS
    left = struct.unpack_from(">Q", python.expect("N").payload, 2)[0]
    while left and time.monotonic() < ends:
        left -= len(python.expect("T").payload)
    assert (left, python.expect("Z").fields) == (0, {"out": 0})


LINKS = {
    "a link elsewhere to a file that is there already": ("out/made", "elsewhere", "out/made"),
    "a link that is there to a file elsewhere": ("made", "out/link", "out/link"),
}


@pytest.mark.parametrize(("file", "link", "handed_over"), LINKS.values(), ids=LINKS)
@pytest.mark.parametrize("language", ["python", "typescript"])
def test_what_is_emitted_through_a_link_is_handed_over_as_a_file(
    request: pytest.FixtureRequest, language: str, file: str, link: str, handed_over: str
) -> None:
    supervised: Supervised = request.getfixturevalue(language)
    (supervised.workspace / "out").mkdir(exist_ok=True)
    (supervised.workspace / file).write_text("made")
    (supervised.workspace / link).symlink_to(supervised.workspace / file)
    library = CLIENT_LIBRARY / language
    supervised.prepare({f"servers/{each.name}": each.read_text() for each in library.iterdir() if each.is_file()})
    codes = {
        "python": f"from servers.output import emit_file\nemit_file({link!r})",
        "typescript": f"import {{ emitFile }} from './servers/output.js';\nawait emitFile({link!r});",
    }
    ended = supervised.run(codes[language], places=OUT)
    assert (ended.errors, ended.files, ended.left_out) == ("", {handed_over.replace("out/", "o:"): b"made"}, [])
    assert (supervised.workspace / file).read_text() == "made"

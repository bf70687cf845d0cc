"""What a program leaves for the supervisor to find: links, FIFOs, names, numbers and sizes that nobody expects.

Each attack leaves an ordinary file as well, which arrives: so the handover took place, and it went past the trap.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from hashlib import sha256

import pytest

from orchestrator.daemon import build_engine
from orchestrator.domain.execution import Ending, Language, Outcome, Recipe, Stream
from orchestrator.domain.files import FileLimits, Place, Why
from orchestrator.domain.sandbox import Program, SandboxSpec
from orchestrator.engines.docker.engine import DockerEngine
from orchestrator.engines.runner.frames import FrameKind, encode
from tests.support.file_sink import MemorySink, pieces_of
from tests.support.installation import Installation
from tests.support.samples import limits

MIB = 1024**2
BOUNDS = FileLimits(max_files=1000, max_file_bytes=16 * MIB, max_total_bytes=64 * MIB)
CONTROL = "import os, socket\nos.chdir('/workspace/out')\nopen('~control', 'w').write('control')\n"
# An attack may cost the attacker its own time, but nobody waits for it longer than this.
SOON_SECONDS = 20


@dataclass(frozen=True)
class Left:
    ending: Ending
    sink: MemorySink
    printed: str
    seconds: float  # of what came after the program's own end

    @property
    def files(self) -> dict[bytes, bytes | None]:
        return {name: content for (place, name), content in self.sink.files.items() if place is Place.OUT}

    @property
    def attacks(self) -> dict[bytes, bytes | None]:
        """What came besides the control, which must be there."""
        files = self.files
        assert files.pop(b"~control") == b"control"
        return files

    @property
    def reasons(self) -> dict[bytes, Why]:
        return {name: why for (_, name), (why, _) in self.sink.left_out.items()}


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[DockerEngine]:
    settings = Installation.create(tmp_path_factory.mktemp("files")).settings
    engine = build_engine(settings, owner=f"files-{secrets.token_hex(4)}")
    await engine.prepare()
    yield engine
    assert [left.id for left in await engine.list_owned()] == []
    await engine.close()


async def leave(
    engine: DockerEngine, code: str, *, bounds: FileLimits = BOUNDS, brought: dict[str, bytes] | None = None
) -> Left:
    """Run the attack after the control; return what came of it, once it is destroyed."""
    spec = SandboxSpec(Recipe(Language.PYTHON), limits(), "files", lifetime_seconds=120)
    sandbox = await engine.create_sandbox(spec, lambda sandbox_id: asyncio.Protocol())
    sink, printed = MemorySink(), {Stream.STDOUT: b"", Stream.STDERR: b""}

    def receive(stream: Stream, data: bytes) -> None:
        printed[stream] += data

    try:
        for path, content in (brought or {}).items():
            await sandbox.bring(path, pieces_of(content))
        places = {Place.OUT: bounds, Place.WORKSPACE: bounds}
        program = Program(
            CONTROL + code + "\nimport time; print(time.time(), flush=True)", limits(60), hands_over=places
        )
        ending = await sandbox.run(program, receive, sink=sink)
        ended_at = time.time()
    finally:
        await sandbox.destroy()
    *lines, last = printed[Stream.STDOUT].decode(errors="replace").splitlines() or ["0"]
    assert ending.outcome is Outcome.COMPLETED, printed
    assert sink.left_out_count is not None
    return Left(ending, sink, "\n".join(lines), ended_at - float(last))


async def test_no_link_is_followed_wherever_it_leads(engine):
    targets = ["/etc/passwd", "/proc/1/environ", "/proc/self/mem", "/etc", "..", "~control", "/nowhere"]
    code = f"""
for number, target in enumerate({targets}): os.symlink(target, f'link{{number}}')
os.mkdir('folder')
os.symlink('/etc/passwd', 'folder/inside')
print(len(open('link0').read()) > 10, len(os.listdir('link3')) > 10)
"""
    left = await leave(engine, code)
    assert left.printed == "True True"  # the program itself may follow them
    assert left.attacks == {}
    assert left.reasons == dict.fromkeys([*(b"link%d" % n for n in range(7)), b"folder/inside"], Why.NOT_A_FILE)


async def test_a_folder_that_became_a_link_is_not_entered(engine):
    code = """
os.chdir('/workspace')
os.rename('out', 'was')
os.symlink('/etc', 'out')
os.rename('was/~control', 'files/~control')
"""
    left = await leave(engine, code)
    assert left.sink.files == {(Place.WORKSPACE, b"~control"): b"control"}
    assert left.reasons == {b".": Why.NOT_A_FILE}


async def test_hard_links_reach_nothing_that_is_not_the_programs(engine):
    code = """
for target in ('/etc/passwd', '/etc/shadow', '/proc/1/environ', '/opt'):
    try: os.link(target, 'stolen' + target.replace('/', '_'))
    except OSError as error: print(error.errno)
os.link('~control', 'second')
"""
    left = await leave(engine, code)
    assert len(left.printed.splitlines()) == 4
    assert left.attacks == {b"second": b"control"}


async def test_what_would_block_a_reader_is_not_opened(engine):
    code = """
os.mkfifo('fifo')
socket.socket(socket.AF_UNIX).bind('socket')
listening = socket.socket(socket.AF_UNIX)
listening.bind('listening')
listening.listen()
"""
    left = await leave(engine, code)
    assert (left.attacks, left.seconds < SOON_SECONDS) == ({}, True)
    assert left.reasons == dict.fromkeys((b"fifo", b"socket", b"listening"), Why.NOT_A_FILE)


async def test_a_file_with_holes_counts_with_its_whole_size(engine):
    code = "open('huge', 'wb').truncate(400 * 1024**2)\nopen('allowed', 'wb').truncate(1024**2)"
    left = await leave(engine, code)
    assert left.sink.left_out == {(Place.OUT, b"huge"): (Why.TOO_LARGE, 400 * MIB)}
    assert (left.attacks, left.seconds < SOON_SECONDS) == ({b"allowed": bytes(MIB)}, True)


async def test_100000_files_are_counted_and_the_first_handed_over(engine):
    code = "os.mkdir('a')\nfor number in range(100_000): os.close(os.open(f'a/{number:06}', os.O_CREAT))"
    left = await leave(engine, code)
    assert sorted(left.files) == [b"a/%06d" % number for number in range(1000)]
    assert left.sink.left_out_count == {Place.OUT: 99_001, Place.WORKSPACE: 0}  # with the control, which comes last
    assert set(left.reasons.values()) == {Why.TOO_MANY}
    assert (len(left.reasons), left.seconds < SOON_SECONDS) == (20, True)


async def test_names_of_any_bytes_arrive_as_they_are_and_none_leads_out(engine):
    names = [
        b"latin-\xe9", b"\xff\xfe", b"two\nlines", b"\x1b[2J\x1b]0;title\x07", "\u202egnp.exe".encode(), b"\x7f", b" ",
        b"...", b"..\\..\\windows", b"%2e%2e%2f", b"C:\\x", b"x" * 255, "é".encode() * 127, b"-rf", b"~",
        b"$(id)", b"'\"",
    ]  # fmt: skip
    code = f"""
for name in {names}: open(name, 'wb').write(name)
for name in (b'../above', b'/workspace/above', b'a/../../above', b'..', b'.', b''):
    try: open(name, 'wb').close()
    except OSError: pass
print(os.path.exists('/workspace/above'))
"""
    left = await leave(engine, code)
    assert left.printed == "True"
    assert left.attacks == {name: name for name in names}
    assert left.reasons == {}


async def test_a_name_longer_than_any_path_may_be_arrives(engine):
    code = "for _ in range(20):\n    os.mkdir('d' * 250)\n    os.chdir('d' * 250)\nopen('file', 'w').write('deep')"
    left = await leave(engine, code)
    assert left.attacks == {(b"d" * 250 + b"/") * 20 + b"file": b"deep"}


async def test_folders_10000_deep_are_left_out_as_one(engine):
    code = "for _ in range(10_000):\n    os.mkdir('d')\n    os.chdir('d')\nopen('deepest', 'w').close()"
    left = await leave(engine, code)
    assert (left.attacks, left.reasons) == ({}, {b"/".join([b"d"] * 32): Why.TOO_DEEP})
    assert left.seconds < SOON_SECONDS


async def test_what_a_program_forbids_itself_to_read_is_handed_over(engine):
    code = """
for folder, mode in (('locked', 0), ('listed', 0o600)):
    os.mkdir(folder)
    open(folder + '/inside', 'w').write('inside')
    os.chmod(folder, mode)
open('secret', 'w').write('secret')
os.chmod('secret', 0)
for path in ('locked/inside', 'listed/inside', 'secret'):
    try: open(path)
    except PermissionError: print('forbidden')
"""
    left = await leave(engine, code)
    assert left.printed == "forbidden\nforbidden\nforbidden"
    assert left.attacks == {b"locked/inside": b"inside", b"listed/inside": b"inside", b"secret": b"secret"}


async def test_what_outlives_the_program_changes_no_file_that_is_handed_over(engine):
    """The writer left its session, is deaf to signals, and writes as fast as it can, to a name and to a descriptor."""
    code = """
import signal
read_end, write_end = os.pipe()
if os.fork() == 0:
    os.setsid()
    for number in range(1, 30):
        if number not in (9, 19): signal.signal(number, signal.SIG_IGN)
    if os.fork() == 0:
        growing = open('growing', 'ab', buffering=0)
        number = 0
        while True:
            number += 1
            growing.write(b'x' * 10_000)
            if growing.tell() > 8_000_000: growing.truncate(0)
            with open(f'new-{number % 50}', 'w') as file: file.write('y' * 1000)
            if number == 20: os.write(write_end, b'!')
    os._exit(0)
os.read(read_end, 1)
"""
    left = await leave(engine, code)
    growing = left.attacks[b"growing"]
    assert growing is not None
    assert set(growing) <= {ord("x"), 0}
    assert Why.LOST not in left.reasons.values()
    assert left.seconds < SOON_SECONDS


async def test_a_workspace_that_was_filled_to_the_last_byte_is_handed_over_within_its_limits(engine):
    code = f"""
piece, number = os.urandom({MIB}), 0
try:
    while True:
        with open(f'{{number // 15:02}}', 'ab') as file: file.write(piece)
        number += 1
except OSError as error:
    print(error.errno)
"""
    left = await leave(engine, code)
    taken = sum(len(content or b"") for content in left.files.values())
    assert left.printed == "28"
    assert (taken <= BOUNDS.max_total_bytes, taken > 59 * MIB, b"~control" in left.files) == (True, True, True)
    assert set(left.reasons.values()) == {Why.NO_ROOM}
    assert left.seconds < SOON_SECONDS


async def test_as_much_as_is_allowed_arrives_byte_by_byte(engine):
    code = """
import hashlib
for name in 'abc':
    content = os.urandom(16 * 1024**2)
    open(name, 'wb').write(content)
    print(hashlib.sha256(content).hexdigest())
"""
    left = await leave(engine, code)
    assert [sha256(left.files[name] or b"").hexdigest() for name in (b"a", b"b", b"c")] == left.printed.split()
    assert left.seconds < SOON_SECONDS


async def test_frames_that_a_program_prints_bring_no_files(engine):
    forged = encode(FrameKind.FILE, b"o\0" + bytes(8) + b"forged") + encode(FrameKind.HANDED_OVER, b'{"out": 0}')
    code = f"for stream in (1, 2): os.write(stream, {forged!r} + b'\\n')"
    left = await leave(engine, code)
    assert (left.attacks, left.reasons) == ({}, {})
    assert "forged" in left.printed


async def test_a_file_of_the_workspace_that_is_said_to_be_unchanged_is(engine):
    """Its times are put back, and it is changed through a mapping, which changes none."""
    code = """
import mmap
os.chdir('/workspace/files')
before = os.stat('times')
open('times', 'w').write('2')
os.utime('times', ns=(before.st_atime_ns, before.st_mtime_ns))
with open('mapped', 'r+b') as file, mmap.mmap(file.fileno(), 1) as mapped:
    assert mapped[0] == ord('1')
    mapped[0] = ord('2')
os.rename('renamed', 'other')
"""
    brought = {f"files/{name}": b"1" for name in ("times", "mapped", "renamed", "same")}
    left = await leave(engine, code, brought=brought)
    assert left.sink.workspace == {"times": b"2", "mapped": b"2", "other": b"1", "same": None}


async def test_a_program_cannot_stop_what_comes_after_it(engine):
    """PID 1 is deaf to it, and the rights of the folder and of the way to it are given back."""
    code = """
import signal
for number in (1, 2, 9, 15, 19):
    try: os.kill(1, number)
    except OSError: pass
os.chmod('/workspace/out', 0)
os.chmod('/workspace', 0)
"""
    left = await leave(engine, code)
    assert (left.attacks, left.reasons) == ({}, {})

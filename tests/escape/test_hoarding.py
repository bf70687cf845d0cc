"""Programs that hoard what the limits count in other ways: descriptors, holes, packed data, kernel memory."""

import pytest

from tests.support.programs import PRELUDE, UNTIL_ENDED, held, probe

MIB = 1024 * 1024


async def test_descriptors_run_out_at_their_limit(api):
    code = """
def open_until_refused():
    kept = []
    for count in range(10_000):
        try:
            kept.append(os.open("/dev/null", os.O_RDONLY))
        except OSError as error:
            return count, errno.errorcode[error.errno]
tell(open_until_refused())
"""
    count, error = await probe(api, code)
    assert error == "EMFILE"
    assert 400 < count < 512


async def test_a_sparse_file_is_no_larger_than_a_file_may_be(api):
    code = """
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def hole(size):
    with open("/workspace/hole", "wb") as file:
        file.truncate(size)
def reserve(size):
    with open("/workspace/solid", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)
tell([attempt(hole, 1 << 40), attempt(hole, 600 << 20), attempt(reserve, 600 << 20), attempt(hole, 400 << 20)])
"""
    *refused, control = await probe(api, code)
    assert set(refused) <= {"EFBIG", "ENOSPC"}
    assert control == "ok"


async def test_a_packed_bomb_fills_its_own_tmpfs_and_no_more(api):
    code = """
import zlib
packer = zlib.compressobj(9)
packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(2048)) + packer.flush()
def unpack(path):
    unpacker, written = zlib.decompressobj(), 0
    with open(path, "wb", buffering=0) as file:
        data = packed
        while data:
            try:
                written += file.write(unpacker.decompress(data, 1 << 20))
            except OSError as error:
                return written, errno.errorcode[error.errno]
            data = unpacker.unconsumed_tail
    return written, "ok"
tell([len(packed), *unpack("/tmp/unpacked")])
"""
    packed, written, error = await probe(api, code, 60)
    assert packed < 4 * MIB
    assert error == "ENOSPC"
    assert 90 * MIB < written <= 100 * MIB


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "import re\nprint('matching', flush=True)\nre.match(r'(a+)+$', 'a' * 64 + 'b')\nprint('matched')"),
        ("typescript", "console.log('matching'); /^(a+)+$/.test('a'.repeat(64) + 'b'); console.log('matched');"),
    ],
    ids=["python", "typescript"],
)
async def test_an_endless_regular_expression_ends_at_its_timeout(api, language, code):
    result = await api.execute(code, language, 5)  # which includes the start of the interpreter
    assert (result["outcome"], result["output"]) == ("timed_out", "matching\n")


async def test_shared_memory_counts_like_any_other(api):
    code = """
import mmap
print("before", flush=True)
kept = []
while True:
    kept.append(mmap.mmap(-1, 64 << 20))
    kept[-1].write(b"x" * (64 << 20))
"""
    result = await api.python(code, 60)
    assert (result["outcome"], result["output"]) == ("out_of_memory", "before\n")


async def test_what_lies_in_pipes_and_sockets_stays_below_the_memory_limit(api):
    code = """
import fcntl
kept, stored = [], 0
def fill(end):
    total = 0
    os.set_blocking(end, False)
    try:
        while True:
            total += os.write(end, bytes(65536))
    except BlockingIOError:
        return total
try:
    while True:
        reader, writer = os.pipe()
        kept += [reader, writer]
        attempt(fcntl.fcntl, writer, 1031, 1 << 20)
        stored += fill(writer)
        pair = socket.socketpair()
        kept.append(pair)
        stored += fill(pair[0].fileno())
except OSError as error:
    ended = errno.errorcode[error.errno]
tell([stored, ended])
"""
    stored, ended = await probe(api, code, 60)
    assert ended in ("EMFILE", "ENFILE")
    assert 8 * MIB < stored < 1024 * MIB


async def test_the_program_is_given_up_before_the_hosts_own_services(api):
    code = """
own, supervisor = "/proc/self/oom_score_adj", "/proc/1/oom_score_adj"
tell([int(read_file(own)), int(read_file(supervisor)),
      attempt(write_file, own, "-1000"), attempt(write_file, own, "1000")])
"""
    own, supervisor, lowered, raised = await probe(api, code)
    assert own == 1000
    assert 0 <= supervisor < own  # small, and the one that tells how the program ended
    assert (lowered, raised) == ("EACCES", "ok")


HOARD_WATCHERS = """
kept = []
while (watcher := libc.inotify_init()) >= 0:
    kept.append(watcher)
os.write(1, f"{len(kept)}\\n".encode())
"""


async def test_one_programs_watchers_leave_some_for_its_neighbour(api):
    """The kernel counts them per user of the host, and every sandbox has the same user."""
    async with held(api, PRELUDE + HOARD_WATCHERS + UNTIL_ENDED):
        assert await probe(api, "tell(libc.inotify_init() >= 0 or errno.errorcode[ctypes.get_errno()])") in (
            True,
            "EPERM",
        )


HOARD_SIGNALS = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, {34})
pid = os.getpid()
value = ctypes.c_long(0)
sent = 0
while sent < 200_000 and libc.sigqueue(pid, 34, value) == 0:
    sent += 1
os.write(1, f"{sent}\\n".encode())
"""


async def test_one_programs_pending_signals_leave_room_for_its_neighbours(api):
    """These are counted per user as well."""
    code = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, {34})\n"
    code += "tell(libc.sigqueue(os.getpid(), 34, ctypes.c_long(0)) == 0 or errno.errorcode[ctypes.get_errno()])"
    async with held(api, PRELUDE + HOARD_SIGNALS + UNTIL_ENDED):
        assert await probe(api, code) in (True, "EPERM")

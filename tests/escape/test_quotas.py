"""What the kernel counts by user or for the whole host: one sandbox uses up its own, and the next one notices nothing.

Each hoard ends where the kernel refuses more, which is the control: the quota is really used up there.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.programs import PRELUDE, UNTIL_ENDED, held, probe

# Each hoard sets `error` to what the kernel said in the end; each use is a modest one of the same quota.
PER_USER = {
    "epoll watches": (
        """
import select
epolls = [select.epoll() for _ in range(240)]
events = [os.eventfd(0) for _ in range(240)]
def watch_all():
    for epoll in epolls:
        for event in events:
            epoll.register(event)
error = attempt(watch_all)
""",
        "ENOSPC",
        "import select; epoll = select.epoll(); use = lambda: epoll.register(os.eventfd(0))",
    ),
    "descriptors in flight": (
        """
here, there = socket.socketpair()
def send_all():
    for _ in range(5000):
        socket.send_fds(here, [b"x"], [0] * 200, socket.MSG_DONTWAIT)
error = attempt(send_all)
""",
        "ETOOMANYREFS",
        "here, there = socket.socketpair(); use = lambda: socket.send_fds(here, [b'x'], [0] * 200)",
    ),
    "pipe pages": (
        """
pipes = []
def fill():
    for _ in range(400):
        pipes.append(os.pipe())
        fcntl.fcntl(pipes[-1][1], fcntl.F_SETPIPE_SZ, 1 << 20)
error = attempt(fill)
""",
        "EPERM",
        "read, write = os.pipe(); use = lambda: fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 1 << 20)",
    ),
}
# What the profile does not let anybody do at all.
REFUSED = {
    "inotify instances and watches": "inotify_init1",
    "fanotify groups and marks": "fanotify_init",
    "keys": "add_key",
    "message queues": "mq_open",
    "asynchronous input and output": "io_setup",
    "timers": "timer_create",
    "namespaces": "unshare",
    "BPF programs": "bpf",
    "system call filters": "seccomp",
}
NUMBERS = {"inotify_init1": (294, 26), "fanotify_init": (300, 262), "io_setup": (206, 0), "timer_create": (222, 107)}
MODEST_WATCHES = 50_000
WATCHES = Path("/proc/sys/fs/epoll/max_user_watches")


@pytest.fixture(autouse=True)
def few_epoll_watches() -> Iterator[None]:
    """The kernel allows each user millions by default, and counting to them takes a minute."""
    with lowered(WATCHES, MODEST_WATCHES):
        yield


@contextmanager
def lowered(setting: Path, value: int) -> Iterator[None]:
    if os.geteuid() != 0:
        pytest.skip("only root can lower the limit that this test reaches")
    before = setting.read_text()
    setting.write_text(str(value))
    try:
        yield
    finally:
        setting.write_text(before)


@pytest.mark.parametrize("quota", PER_USER)
async def test_a_users_quota_that_one_sandbox_uses_up_is_whole_in_the_next(api, quota):
    hoard, refusal, modest = PER_USER[quota]
    async with held(api, PRELUDE + hoard + "\nos.write(1, error.encode() + b'\\n')" + UNTIL_ENDED) as greedy:
        assert greedy.line == refusal
        assert await probe(api, modest + "\ntell(attempt(use))") == "ok"


async def test_signals_that_wait_in_one_sandbox_are_not_counted_in_the_next(api):
    hoard = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
for _ in range(10_000):
    os.kill(os.getpid(), signal.SIGRTMIN)
os.write(1, process_status()["SigQ"].encode() + b"\\n")
"""
    async with held(api, PRELUDE + hoard + UNTIL_ENDED) as greedy:
        waiting, limit = map(int, greedy.line.split("/"))
        assert waiting >= limit
        assert int((await probe(api, "tell(process_status()['SigQ'])")).split("/")[0]) == 0


async def test_a_typescript_program_runs_beside_one_that_has_used_up_every_watch(api):
    hoard, refusal, _ = PER_USER["epoll watches"]
    async with held(api, PRELUDE + hoard + "\nos.write(1, error.encode() + b'\\n')" + UNTIL_ENDED) as greedy:
        assert greedy.line == refusal
        result = await api.typescript("await new Promise((done) => setTimeout(done, 10)); console.log('ran');")
        assert (result["outcome"], result["output"]) == ("completed", "ran\n")


@pytest.mark.parametrize("quota", REFUSED)
async def test_what_needs_a_quota_of_the_host_cannot_be_begun(api, quota):
    name = REFUSED[quota]
    code = f"NUMBERS |= {NUMBERS!r}\ntell([system_call({name!r}, 0, 0, 0, 0), system_call('getpid')])"
    assert await probe(api, code) == ["EPERM", "ok"]


def test_every_quota_that_this_kernel_counts_by_user_is_known():
    """A kernel with a quota that nobody has looked at fails here."""
    known = {
        "fs/epoll/max_user_watches",
        "fs/fanotify/max_user_groups",
        "fs/fanotify/max_user_marks",
        "fs/inotify/max_user_instances",
        "fs/inotify/max_user_watches",
        "fs/pipe-user-pages-hard",
        "fs/pipe-user-pages-soft",
        "kernel/keys/maxbytes",
        "kernel/keys/maxkeys",
        "user/max_cgroup_namespaces",
        "user/max_fanotify_groups",
        "user/max_fanotify_marks",
        "user/max_inotify_instances",
        "user/max_inotify_watches",
        "user/max_ipc_namespaces",
        "user/max_mnt_namespaces",
        "user/max_net_namespaces",
        "user/max_pid_namespaces",
        "user/max_time_namespaces",
        "user/max_user_namespaces",
        "user/max_uts_namespaces",
    }
    root = Path("/proc/sys")
    names = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    assert {name for name in names if re.search(r"^user/|max_user_|-user-|^kernel/keys/max", name)} <= known


async def test_no_filter_can_be_attached_to_a_socket_or_a_process(api):
    """Their machine code comes out of one pot for the whole host; when it is empty no container starts."""
    code = """
program = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0))
filter = struct.pack("HxxxxxxQ", 1, ctypes.addressof(program))
here, there = socket.socketpair()
def option(number, value):
    return attempt(here.setsockopt, socket.SOL_SOCKET, number, value)
PR_SET_SECCOMP, PR_SET_NAME, SECCOMP_MODE_FILTER = 22, 15, 2
def prctl(option, first, second):
    passed = [ctypes.c_ulong(option), ctypes.c_ulong(first), second]
    return "ok" if libc.prctl(*passed) == 0 else errno.errorcode[ctypes.get_errno()]
wide = libc.setsockopt(here.fileno(), ctypes.c_long(1), ctypes.c_long((1 << 32) | 26), filter, len(filter))
tell({
    "refused": [option(26, filter), option(50, 0), option(51, filter), option(52, 0), "EPERM" if wide else "ok",
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter)],
    "allowed": [option(socket.SO_SNDBUF, 4096), prctl(PR_SET_NAME, ctypes.addressof(program), 0)],
})
"""
    told = await probe(api, code)
    assert set(told["refused"]) == {"EPERM"}
    assert set(told["allowed"]) == {"ok"}


async def test_there_is_no_terminal_to_take(api):
    host_can_make_one = os.openpty()
    for fd in host_can_make_one:
        os.close(fd)
    assert await probe(api, "tell([attempt(os.openpty), attempt(os.open, '/dev/ptmx', os.O_RDWR)])") == [
        "ENOENT",
        "ENOENT",
    ]


async def test_what_sockets_hold_counts_as_the_sandboxs_memory(api):
    code = """
def used():
    return int(cgroup_file("memory.current", "memory/memory.usage_in_bytes"))
before, held = used(), 0
pairs = [socket.socketpair() for _ in range(240)]
for here, there in pairs:
    here.setblocking(False)
    try:
        while True:
            held += here.send(bytes(65536))
    except BlockingIOError:
        pass
tell([held, used() - before])
"""
    held_bytes, counted = await probe(api, code)
    assert held_bytes > 30 << 20
    assert counted >= held_bytes


NETWORK = """
kinds = {"tcp": (1, 0), "udp": (2, 0), "raw": (3, 1), "icmp": (2, 1), "mptcp": (1, 262), "sctp": (1, 132),
    "udp-lite": (2, 136), "dccp": (6, 33)}
made = {f"{family}/{name}": attempt(socket.socket, family, kind, protocol)
    for family in (socket.AF_INET, socket.AF_INET6) for name, (kind, protocol) in kinds.items()}
unusual = ((2, 0), (5, 0), (3, 0), (1, 1))
strange = [attempt(socket.socket, socket.AF_UNIX, kind, protocol) for kind, protocol in unusual]
tell([made, strange, attempt(socket.socket, socket.AF_UNIX)])
"""


async def test_no_socket_of_any_network_protocol_can_be_made(api):
    made, strange, control = await probe(api, NETWORK)
    assert len(made) == 16
    assert set(made.values()) == {"ENETUNREACH"}
    assert set(strange) == {"EPERM"}
    assert control == "ok"


HUMBLE = """
def resident(pid):
    return int(read_file(f"/proc/{pid}/statm").split()[1]) * 4096
def fill_queue():
    pair = socket.socketpair()
    for end in pair:
        end.set_inheritable(True)
    pair[0].setblocking(False)
    try:
        while True:
            pair[0].send(bytes(16384))
    except BlockingIOError:
        return pair
write_file("/proc/self/oom_score_adj", "0")
children, (all_small, becoming_small) = [], os.pipe()
for _ in range(230):
    if not (child := os.fork()):
        queues = [fill_queue() for _ in range(12)]
        os.execv("/bin/sleep", ["sleep", "60"])
    children.append(child)
os.close(becoming_small)
os.read(all_small, 1)
os.write(1, b"smaller\\n" if max(map(resident, children)) < resident(1) else b"larger\\n")
fill = "for place in /workspace /tmp /tmp/executions; do head -c 600000000 /dev/zero >$place/filler; done; sleep 60"
os.execv("/bin/sh", ["sh", "-c", f"({fill}) 2>/dev/null"])
"""


@pytest.mark.timeout(400)
async def test_a_program_that_makes_the_kernel_choose_the_supervisor_is_out_of_memory_all_the_same(api):
    """Files and queues fill the memory, and each process is as unlikely a victim as the supervisor, and smaller."""
    for _ in range(3):
        result = await api.python(PRELUDE + HUMBLE, 90)
        assert (result["outcome"], result["output"]) == ("out_of_memory", "smaller\n"), result

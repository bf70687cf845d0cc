"""Doors into the kernel, other processes and other privileges."""

import pytest

from tests.support.programs import PRELUDE, probe

CLONE_NEW = {
    "user": 0x10000000,
    "pid": 0x20000000,
    "net": 0x40000000,
    "mount": 0x20000,
    "uts": 0x4000000,
    "ipc": 0x8000000,
}


async def test_the_probe_passes_system_calls_on(api):
    """The control of every test here: a call that is allowed succeeds, and the kernel's own errors come through."""
    assert await probe(api, "tell([system_call('getpid'), system_call('close', 9999)])") == ["ok", "EBADF"]


async def test_no_namespace_can_be_made_or_entered(api):
    code = f"""
flags = {CLONE_NEW}
def unshare(flag):
    return system_call("unshare", flag)
def clone(flag):
    return system_call("clone", flag | 17, 0, 0, 0, 0)
answers = {{f"unshare {{name}}": unshare(flag) for name, flag in flags.items()}}
answers |= {{f"clone {{name}}": clone(flag) for name, flag in flags.items()}}
answers["setns"] = system_call("setns", os.open("/proc/self/ns/net", os.O_RDONLY), 0)
child = os.fork()
if child == 0:
    os._exit(0)
tell([answers, os.waitpid(child, 0)[1]])
"""
    answers, ordinary_fork = await probe(api, code)
    assert answers == dict.fromkeys(answers, "EPERM")
    assert ordinary_fork == 0


async def test_clone3_is_unknown_so_that_libraries_fall_back(api):
    assert await probe(api, "tell(system_call('clone3', ctypes.create_string_buffer(88), 88))") == "ENOSYS"


# Arguments such that the kernel itself would answer anything but EPERM to most of them.
FORBIDDEN = {
    "mounts": """
        mount=(b"none", b"/workspace", b"tmpfs", 0, 0), umount2=(b"/workspace", 0), pivot_root=(b"/tmp", b"/tmp"),
        chroot=(b"/workspace",), fsopen=(b"tmpfs", 0), open_tree=(-100, b"/", 0), move_mount=(-1, b"", -1, b"", 0),
        mount_setattr=(-1, b"", 0, 0, 0), name_to_handle_at=(-100, b"/", 0, 0, 0), open_by_handle_at=(-1, 0, 0),
        quotactl=(0, 0, 0, 0), swapon=(b"/workspace/x", 0)
    """,
    "other processes": """
        ptrace=(16, 1, 0, 0), process_vm_readv=(1, 0, 0, 0, 0, 0), process_vm_writev=(1, 0, 0, 0, 0, 0),
        kcmp=(1, 1, 0, 0, 0), pidfd_getfd=(-1, 0, 0), process_madvise=(-1, 0, 0, 0, 0),
        prlimit64=(1, 7, 0, 0), sched_setaffinity=(1, 8, ctypes.create_string_buffer(8)), setpriority=(0, 1, 19)
    """,
    "keys": """
        add_key=(b"user", b"x", b"y", 1, -3), request_key=(b"user", b"x", 0, 0), keyctl=(0, -3, 0, 0, 0)
    """,
    "kernel machinery": """
        io_uring_setup=(1, ctypes.create_string_buffer(120)), bpf=(0, 0, 0), perf_event_open=(0, 0, -1, -1, 0),
        userfaultfd=(1,), memfd_create=(b"x", 0), memfd_secret=(0,), seccomp=(0, 0, 0),
        execveat=(-1, b"", 0, 0, 0x1000), kexec_load=(0, 0, 0, 0), init_module=(0, 0, b""),
        finit_module=(-1, b"", 0), syslog=(10, 0, 0), acct=(0,), reboot=(0, 0, 0, 0), mq_open=(b"x", 0, 0, 0)
    """,
    "identity and clock": """
        setuid=(0,), setgid=(0,), setgroups=(0, 0), sethostname=(b"x", 1), settimeofday=(0, 0),
        clock_settime=(0, ctypes.create_string_buffer(16)), personality=(0x0040000,)
    """,
}


@pytest.mark.parametrize("group", FORBIDDEN)
async def test_the_filter_refuses_system_calls_on(api, group):
    answers = await probe(api, f"tell({{n: system_call(n, *a) for n, a in dict({FORBIDDEN[group]}).items()}})")
    assert answers
    assert answers == dict.fromkeys(answers, "EPERM")


async def test_only_ordinary_sockets_can_be_made(api):
    code = """
def make(family, kind, protocol=0):
    return attempt(lambda: socket.socket(family, kind, protocol).close())
stream, datagram, raw, sequenced = 1, 2, 3, 5
tell([
    {
        "netlink": make(16, raw), "packet": make(17, raw, 3), "vsock": make(40, stream),
        "algorithms": make(38, sequenced), "bluetooth": make(31, raw), "xdp": make(44, raw),
        "tipc": make(30, stream), "can": make(29, raw), "rds": make(21, sequenced), "unix datagrams": make(1, datagram),
    },
    make(1, stream),
])
"""
    refused, control = await probe(api, code)
    assert refused == dict.fromkeys(refused, "EPERM")
    assert control == "ok"


async def test_the_foreign_32_bit_abi_cannot_be_used(api):
    code = """
import mmap
def machine_code(instructions):
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(instructions)
    return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page))), page
if os.uname().machine != "x86_64":
    print("not this machine")
    raise SystemExit
getpid, kept = machine_code(bytes.fromhex("b827000000" "0f05" "c3"))
print("own abi", getpid() == os.getpid(), flush=True)
getpid, kept = machine_code(bytes.fromhex("b814000000" "cd80" "c3"))
print("foreign abi", getpid(), flush=True)
"""
    result = await api.python(PRELUDE + code)
    if result["output"] == "not this machine\n":
        pytest.skip("only x86_64 has the 32-bit entry")
    assert (result["outcome"], result["output"]) == ("failed", "own abi True\n")
    assert result["exitCode"] in (128 + 31, 128 + 11)  # SIGSYS by the filter, or a kernel without that entry


async def test_x32_system_calls_are_refused(api):
    code = """
def in_a_child(number):
    child = os.fork()
    if child == 0:
        os._exit(0 if libc.syscall(ctypes.c_long(number)) >= 0 else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
own = NUMBERS["getpid"][os.uname().machine != "x86_64"]
tell([in_a_child(0x40000000 + own), in_a_child(own)])
"""
    foreign, own = await probe(api, code)
    assert foreign in (1, -31)  # an error, or SIGSYS
    assert own == 0


async def test_no_device_node_can_be_made(api):
    code = """
import stat
tell([attempt(os.mknod, "/workspace/disk", stat.S_IFBLK | 0o600, os.makedev(8, 0)),
      attempt(os.mknod, "/workspace/mem", stat.S_IFCHR | 0o600, os.makedev(1, 1)),
      attempt(os.mkfifo, "/workspace/pipe")])
"""
    assert await probe(api, code) == ["EPERM", "EPERM", "ok"]


async def test_a_setuid_bit_gives_nothing(api):
    code = """
import subprocess
effective = subprocess.check_output(["/usr/bin/python3", "-c", "import os; print(os.geteuid())"], text=True)
tell([attempt(os.chmod, "/usr/bin/python3", 0o4755), attempt(os.chown, "/workspace", 0, 0), attempt(os.setuid, 0),
      os.getuid(), int(effective)])
"""
    *refused, own, effective = await probe(api, code)
    assert set(refused) <= {"EROFS", "EPERM"}
    assert effective == own != 0


async def test_an_executable_mapping_of_a_written_file_is_refused(api):
    code = """
import mmap
write_file("/tmp/code", "x" * 4096)
def map_it(path, protection):
    with open(path, "rb") as file:
        mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE, protection).close()
tell([attempt(map_it, "/tmp/code", mmap.PROT_READ | mmap.PROT_EXEC), attempt(map_it, "/tmp/code", mmap.PROT_READ),
      attempt(map_it, "/usr/bin/python3", mmap.PROT_READ | mmap.PROT_EXEC)])
"""
    assert await probe(api, code) == ["EPERM", "ok", "ok"]


# --- the supervisor ---


async def test_the_supervisors_descriptors_and_memory_cannot_be_opened(api):
    code = """
def opened(path, flags):
    return attempt(lambda: os.close(os.open(path, flags)))
to_write = ["fd/0", "fd/1", "fd/2", "mem"]
to_read = ["maps", "environ", "root/etc/passwd", "cwd/x", "ns/net", "auxv", "syscall", "stack"]
answers = {name: opened(f"/proc/1/{name}", os.O_RDWR) for name in to_write}
answers |= {name: opened(f"/proc/1/{name}", os.O_RDONLY) for name in to_read}
tell([answers, attempt(os.listdir, "/proc/1/fd"), opened("/proc/self/mem", os.O_RDWR),
      opened("/proc/self/fd/1", os.O_WRONLY)])
"""
    answers, listing, *control = await probe(api, code)
    assert set(answers.values()) <= {"EACCES", "EPERM", "ENOENT"}, answers
    assert (answers["fd/1"], answers["mem"], answers["environ"]) == ("EACCES", "EACCES", "EACCES")
    assert listing == "EACCES"
    assert control == ["ok", "ok"]


async def test_no_signal_harms_the_supervisor(api):
    code = """
import signal
sent = [attempt(os.kill, 1, number) for number in sorted(signal.valid_signals())]
tell([len(sent), sorted(set(sent))])
"""
    count, answers = await probe(api, code)
    assert count > 60
    assert answers == ["ok"]


async def test_a_kill_of_everything_ends_the_program_but_not_the_supervisor(api):
    code = """
import os, signal, sys
child = os.fork()
if child == 0:
    signal.pause()
os.kill(-1, signal.SIGKILL)
print("the child ended by signal", -os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    result = await api.python(code)
    assert (result["outcome"], result["output"]) == ("completed", "the child ended by signal 9\n")


@pytest.mark.parametrize("number", ["SIGKILL", "SIGINT", "SIGTERM", "SIGSTOP"])
async def test_typescript_cannot_signal_the_supervisor_away(api, number):
    result = await api.typescript(f"process.kill(1, '{number}'); setTimeout(() => console.log('goes on'), 50)")
    assert (result["outcome"], result["output"]) == ("completed", "goes on\n")


async def test_the_runners_own_files_cannot_be_changed(api):
    code = """
found = [os.path.join(folder, name) for folder, _, names in os.walk("/opt/runner") for name in names]
found += ["/usr/local/bin/node", "/usr/bin/python3", "/etc/passwd", "/etc/hosts", "/etc/resolv.conf"]
def spoil(path):
    os.close(os.open(path, os.O_WRONLY))
tell([{path: attempt(spoil, path) for path in found}, {path: attempt(os.unlink, path) for path in found},
      attempt(os.rename, "/opt/runner", "/opt/other"), attempt(spoil, "/workspace/main.py")])
"""
    writes, removals, renamed, control = await probe(api, code)
    assert len(writes) > 10
    assert set(writes.values()) | set(removals.values()) | {renamed} <= {"EROFS", "EACCES", "EBUSY"}
    assert control == "ok"


async def test_a_crash_leaves_no_core_file(api):
    code = """
import signal
child = os.fork()
if child == 0:
    os.abort()
status = os.waitpid(child, 0)[1]
tell([os.WTERMSIG(status), os.WCOREDUMP(status), os.listdir("/workspace") + os.listdir("/tmp")])
"""
    signal_number, dumped, files = await probe(api, code)
    assert (signal_number, dumped) == (6, False)
    assert "main.py" in files
    assert [name for name in files if "core" in name] == []

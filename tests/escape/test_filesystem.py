"""What a program finds in its files, and what it tries to make of them."""

import pytest

from tests.support.programs import probe

# Every path that tells of the host or its kernel. Written out here, so that dropping one from the lockdown is noticed.
MASKED = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/proc/buddyinfo",
    "/proc/cgroups",
    "/proc/cmdline",
    "/proc/config.gz",
    "/proc/diskstats",
    "/proc/fs",
    "/proc/iomem",
    "/proc/ioports",
    "/proc/kallsyms",
    "/proc/key-users",
    "/proc/kmsg",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/locks",
    "/proc/misc",
    "/proc/modules",
    "/proc/pagetypeinfo",
    "/proc/partitions",
    "/proc/pressure",
    "/proc/schedstat",
    "/proc/slabinfo",
    "/proc/softirqs",
    "/proc/swaps",
    "/proc/sys",
    "/proc/sysvipc",
    "/proc/vmallocinfo",
    "/proc/vmstat",
    "/proc/zoneinfo",
    "/sys/block",
    "/sys/bus",
    "/sys/class",
    "/sys/dev",
    "/sys/devices",
    "/sys/fs/bpf",
    "/sys/fs/btrfs",
    "/sys/fs/erofs",
    "/sys/fs/ext4",
    "/sys/fs/f2fs",
    "/sys/fs/fuse",
    "/sys/fs/pstore",
    "/sys/fs/resctrl",
    "/sys/fs/selinux",
    "/sys/fs/smackfs",
    "/sys/fs/tmpfs",
    "/sys/fs/xfs",
    "/sys/hypervisor",
    "/sys/kernel",
    "/sys/module",
    "/sys/power",
    "/dev/pts",
    "/sys/class/dmi",
]
READ_ONLY = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]


async def test_every_path_that_tells_of_the_host_is_masked(api):
    """A mask is a mount of its own, an empty directory or the null device."""
    code = f"""
masks = {{path for path, (kind, _) in mounts().items() if kind in ("tmpfs", "devtmpfs")}}
there = [path for path in {MASKED} if os.path.exists(path)]
def masked(path):
    real = os.path.realpath(path)
    return real in masks and (os.listdir(real) == [] if os.path.isdir(real) else os.path.samefile(real, "/dev/null"))
tell([there, [path for path in there if not masked(path)], masked("/proc/uptime")])
"""
    there, bare, control = await probe(api, code)
    assert len(there) > 10
    assert bare == []
    assert control is False


async def test_the_kernels_own_settings_are_mounted_read_only(api):
    code = f"""
found = mounts()
there = [path for path in {READ_ONLY} if os.path.exists(path)]
tell([there, [path for path in there if "ro" not in found.get(path, ("", ["no mount of its own"]))[1]]])
"""
    there, writable = await probe(api, code)
    assert "/proc/sys" in there
    assert writable == []


async def test_the_tmpfs_hold_a_bounded_number_of_files(api):
    """As many as there are pages, and of the system's own files at least some."""
    code = "tell({path: os.statvfs(path).f_files for path in ('/workspace', '/tmp', '/tmp/executions')})"
    assert await probe(api, code) == {"/workspace": 128_000, "/tmp": 25_600, "/tmp/executions": 25_600}


async def test_the_place_of_the_sandbox_on_the_host_is_not_told(api):
    code = """
cgroups = {line.split(":", 2)[2] for line in read_file("/proc/self/cgroup").splitlines()}
tell([sorted(cgroups), os.uname().nodename])
"""
    cgroups, name = await probe(api, code)
    assert cgroups == ["/"]
    assert name == "sandbox"


async def test_nothing_of_the_host_is_mounted_but_the_engines_three_files(api):
    code = """
fields = [line.split() for line in read_file("/proc/self/mountinfo").splitlines()]
kinds = {"overlay", "tmpfs", "proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "devtmpfs"}
foreign = [entry[4] for entry in fields if entry[entry.index("-") + 1] not in kinds]
tell([sorted(foreign), [entry[4] for entry in fields if entry[4] in foreign and "ro" not in entry[5].split(",")]])
"""
    foreign, writable = await probe(api, code)
    assert set(foreign) <= {"/etc/hosts", "/etc/hostname", "/etc/resolv.conf"}
    assert writable == []


async def test_only_harmless_devices_are_there(api):
    code = """
import stat
nodes = {}
for folder, _, names in os.walk("/dev"):
    for name in names:
        mode = os.lstat(os.path.join(folder, name)).st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            nodes[os.path.join(folder, name)] = "block" if stat.S_ISBLK(mode) else "character"
tell([nodes, attempt(write_file, "/dev/null")])
"""
    nodes, control = await probe(api, code)
    harmless = {"null", "zero", "full", "random", "urandom", "tty", "console"}
    assert "block" not in nodes.values()
    assert {path.removeprefix("/dev/") for path in nodes if not path.startswith("/dev/pts/")} <= harmless
    assert control == "ok"


@pytest.mark.parametrize(
    "path",
    [
        "/var/run/docker.sock",
        "/run/docker.sock",
        "/run/containerd/containerd.sock",
        "/var/lib/docker",
        "/run/secrets",
        "/root/.docker",
        "/host",
        "/.dockerenv",
    ],
)
async def test_nothing_of_the_engine_can_be_opened(api, path):
    code = f"""
def look(path):
    if os.path.isdir(path):
        return os.listdir(path)
    return read_file(path) if os.path.isfile(path) else os.path.lexists(path)
tell([look({path!r}) if os.access({path!r}, os.R_OK) else None, bool(look("/etc/passwd"))])
"""
    found, control = await probe(api, code)
    assert not found
    assert control is True


SCAN = """
import re
patterns = {
    "private key": rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\\n[A-Za-z0-9+/=\\n]{64}",
    "cloud key": rb"\\bAKIA[0-9A-Z]{16}\\b",
    "npm token": rb"_auth[T]oken=[^$\\s]",
    "git token": rb"\\bgh[pousr]_[A-Za-z0-9]{36}\\b",
    "index with a password": rb"(?m)^(extra-)?index-url *= *https?://[^/\\s]*@",
}
def findings(root):
    seen, found = 0, []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if os.path.join(folder, name) not in ("/proc", "/sys", "/dev")]
        for name in names:
            path = os.path.join(folder, name)
            if os.path.islink(path) or not os.path.isfile(path) or not os.access(path, os.R_OK):
                continue
            seen += 1
            with open(path, "rb") as file:
                text = file.read(8 << 20)
            found += [f"{path}: {kind}" for kind, pattern in patterns.items() if re.search(pattern, text)]
            found += [f"{path}: a key of this installation" for key in keys if key in text]
    return seen, found
"""


async def test_no_secret_is_in_the_image_or_the_environment(api, installation):
    """The keys are written backwards here: the program's own file is searched as well."""
    keys = [key[::-1].encode() for key in installation.keys.values()]
    code = f"""
keys = [key[::-1] for key in {keys}]
{SCAN}
seen, found = findings("/")
environment = [name for name in os.environ if any(key.decode() in os.environ[name] for key in keys)]
write_file("/tmp/planted", "-----BEGIN " + "PRIVATE KEY-----\\n" + "A" * 64)
write_file("/tmp/planted key", keys[0].decode())
tell([seen, found, environment, len(findings("/tmp")[1])])
"""
    seen, found, environment, control = await probe(api, code, 120)
    assert seen > 500
    assert (found, environment) == ([], [])
    assert control == 2


async def test_the_environment_is_small_and_known(api):
    known = {
        "PATH",
        "LANG",
        "HOME",
        "HOSTNAME",
        "LOGNAME",
        "USER",
        "TMPDIR",
        "MPLBACKEND",
        "MPLCONFIGDIR",
        "OPENBLAS_NUM_THREADS",
        "CODE_EXECUTOR_GATEWAY",
        "CODE_EXECUTOR_GRANT",
        "TZ",
        "PYTHONUTF8",
    }
    assert set(await probe(api, "tell(list(os.environ))")) - known == set()


# --- links ---


async def test_a_link_in_place_of_the_program_shows_nothing_that_it_could_not_read(api):
    """A trace prints lines of the program's file; the program makes it another file."""
    code = """
import os
os.unlink("/workspace/main.py")
os.symlink("{target}", "/workspace/main.py")
raise ValueError("look")
"""
    hidden = await api.python(code.format(target="/proc/1/environ"))
    shown = await api.python(code.format(target="/etc/passwd"))
    assert hidden["outcome"] == shown["outcome"] == "failed"
    assert "PATH=" not in hidden["stderr"]
    assert "ValueError: look" in hidden["stderr"]


async def test_the_output_is_what_was_printed_wherever_links_point(api):
    code = """
import os, sys
for name in ("stdout", "stderr", "output", "result.json"):
    os.symlink("/etc/passwd", f"/workspace/{name}")
os.dup2(os.open("/etc/hostname", os.O_RDONLY), 0)
print("printed")
"""
    result = await api.python(code)
    assert (result["outcome"], result["output"], result["stderr"]) == ("completed", "printed\n", "")


async def test_no_file_of_the_image_can_be_linked_into_a_writable_place(api):
    code = """
def through_descriptor(path):
    fd = os.open(path, os.O_PATH)
    os.link(f"/proc/self/fd/{fd}", "/workspace/linked", follow_symlinks=True)
write_file("/workspace/own")
tell([attempt(os.link, "/usr/bin/python3", "/workspace/python3"),
      attempt(through_descriptor, "/opt/runner/supervisor.py"),
      attempt(os.rename, "/etc/passwd", "/workspace/passwd"), attempt(os.link, "/workspace/own", "/workspace/other")])
"""
    *refused, control = await probe(api, code)
    assert set(refused) <= {"EXDEV", "EPERM", "EROFS", "EACCES"}
    assert control == "ok"


@pytest.mark.parametrize(
    "path", ["/proc/self/root", "/proc/self/cwd/../..", "/proc/thread-self/root", "/dev/fd/../../.."]
)
async def test_the_root_is_the_same_read_only_one_by_every_name(api, path):
    code = f"""
tell([attempt(write_file, {path!r} + "/usr/x"), os.path.samestat(os.stat({path!r} + "/usr"), os.stat("/usr")),
      attempt(write_file, {path!r} + "/workspace/x")])
"""
    refused, same, control = await probe(api, code)
    assert refused in ("EROFS", "EACCES", "ENOENT")
    assert (same, control) in ((True, "ok"), (False, "ok"))


async def test_a_setuid_bit_on_an_own_file_is_worth_nothing(api):
    code = """
import shutil, stat, subprocess
shutil.copy("/usr/bin/python3", "/workspace/shell")
os.chmod("/workspace/shell", 0o6755)
has_bit = bool(os.stat("/workspace/shell").st_mode & stat.S_ISUID)
tell([has_bit, attempt(subprocess.run, ["/workspace/shell", "-c", ""])])
"""
    assert await probe(api, code) == [True, "EACCES"]


async def test_attributes_that_give_capabilities_cannot_be_set(api):
    code = """
write_file("/workspace/x")
names = ["security.capability", "trusted.overlay.opaque", "user.note", "system.posix_acl_access"]
answers = [attempt(os.setxattr, "/workspace/x", name, b"x" * 20) for name in names]
tell([*answers, attempt(os.listxattr, "/workspace/x")])
"""
    *refused, control = await probe(api, code)
    assert refused == ["EPERM"] * 4
    assert control == "ok"


async def test_a_deep_tree_of_directories_does_not_outlive_its_sandbox(api):
    code = """
depth = 0
os.chdir("/workspace")
while depth < 5_000:
    os.mkdir("d" * 200)
    os.chdir("d" * 200)
    depth += 1
tell(depth)
"""
    assert await probe(api, code) == 5_000
    assert await probe(api, "tell(sorted(os.listdir('/workspace')))") == ["in", "main.py", "out", "servers"]

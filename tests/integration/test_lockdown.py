"""Each line of the lockdown, seen from inside a sandbox; every probe has a control that proves that it works."""

import json

import docker
import pytest

from bench.testbed.engine import LABEL, engine, sandboxes_for
from orchestrator.engines.docker import lockdown
from tests.support.api import until
from tests.support.installation import Installation
from tests.support.launcher import with_launcher_here
from tests.support.programs import FOREVER, held, probe

MIB = 1024 * 1024
TMPFS = {"/workspace": 500 * MIB, "/tmp": 100 * MIB, "/tmp/executions": 100 * MIB}


# --- files ---


async def test_the_root_is_read_only_and_the_tmpfs_are_writable(api):
    places = ["/usr/x", "/etc/x", "/opt/runner/x", "/opt/runner/supervisor.py", "/x", "/dev/x", "/var/x", "/proc/x"]
    answers = await probe(api, f"tell({{path: attempt(write_file, path) for path in {places + _in_each_tmpfs()}}})")
    assert {answers[path] for path in _in_each_tmpfs()} == {"ok"}
    assert {answers[path] for path in places} <= {"EROFS", "EACCES", "ENOENT"}
    assert "EROFS" in (answers["/usr/x"], answers["/opt/runner/x"])


def _in_each_tmpfs():
    return [f"{path}/x" for path in TMPFS]


async def test_the_mounts_are_tmpfs_with_nosuid_nodev_and_noexec(api):
    own, mounts = await probe(api, "tell([os.getuid(), mounts()])")
    for path in TMPFS:
        kind, options = mounts[path]
        assert kind == "tmpfs"
        assert {"rw", "nosuid", "nodev", "noexec", f"uid={own}", f"gid={own}"} <= set(options), path
    assert "ro" in mounts["/"][1]
    assert "ro" in mounts["/sys"][1]


async def test_every_writable_place_is_noexec(api):
    code = """
def writable(path):
    return attempt(write_file, f"{path}/x") == "ok" if os.path.isdir(path) else False
tell({path: options for path, (kind, options) in mounts().items() if writable(path)})
"""
    writable = await probe(api, code)
    assert set(TMPFS) <= set(writable)
    assert [path for path, options in writable.items() if "noexec" not in options] == []


async def test_the_tmpfs_have_their_sizes(api):
    code = f"tell({{path: (lambda s: s.f_blocks * s.f_frsize)(os.statvfs(path)) for path in {list(TMPFS)}}})"
    assert await probe(api, code) == TMPFS


@pytest.mark.parametrize(("path", "size"), TMPFS.items())
async def test_a_tmpfs_holds_its_size_and_not_a_page_more(api, path, size):
    code = f"""
def fill(path):
    piece, written = bytes(1 << 20), 0
    for number in range(10_000):
        with open(f"{{path}}/{{number}}", "wb", buffering=0) as file:
            for _ in range(64):
                try:
                    written += file.write(piece)
                except OSError as error:
                    return written, errno.errorcode[error.errno]
tell(fill({path!r}))
"""
    written, error = await probe(api, code)
    assert error == "ENOSPC"
    assert size - MIB < written <= size


async def test_the_tmpfs_belong_to_the_program(api):
    own, owners = await probe(api, f"tell([os.getuid(), [os.stat(path).st_uid for path in {list(TMPFS)}]])")
    assert set(owners) == {own}


@pytest.mark.parametrize("directory", TMPFS)
async def test_no_script_or_binary_executes_from_a_writable_place(api, directory):
    code = f"""
import shutil, subprocess
here = {directory!r}
write_file(f"{{here}}/script", "#!/bin/sh\\necho ran\\n")
library = next(line.split()[-1] for line in read_file("/proc/self/maps").splitlines() if "libc.so" in line)
shutil.copy("/usr/bin/python3", f"{{here}}/python3")
shutil.copy(library, f"{{here}}/copied.so")
for name in ("script", "python3", "copied.so"):
    os.chmod(f"{{here}}/{{name}}", 0o755)
tell({{
    "script": attempt(subprocess.run, [f"{{here}}/script"]),
    "copied binary": attempt(subprocess.run, [f"{{here}}/python3", "-c", "print('ran')"]),
    "copied library": attempt(ctypes.CDLL, f"{{here}}/copied.so"),
    "the same library of the image": attempt(ctypes.CDLL, library),
    "the same script by the image's shell": subprocess.check_output(["/bin/sh", f"{{here}}/script"], text=True),
    "the same binary of the image": subprocess.check_output(["/usr/bin/python3", "-c", "print('ran')"], text=True),
}})
"""
    answers = await probe(api, code)
    assert answers["script"] == answers["copied binary"] == "EACCES"
    assert "failed to map" in answers["copied library"]
    assert answers["the same library of the image"] == "ok"
    assert answers["the same script by the image's shell"] == "ran\n"
    assert answers["the same binary of the image"] == "ran\n"


async def test_no_setuid_file_is_in_the_image(api):
    code = """
import stat
found, seen = [], 0
for folder, _, names in os.walk("/"):
    if folder.startswith(("/proc", "/sys")):
        continue
    for name in names:
        seen += 1
        if os.lstat(os.path.join(folder, name)).st_mode & (stat.S_ISUID | stat.S_ISGID):
            found.append(os.path.join(folder, name))
tell([seen, found])
"""
    seen, found = await probe(api, code)
    assert seen > 500
    assert found == []


# --- privileges ---


async def test_the_program_is_a_user_of_its_own_without_other_groups(api):
    users = []
    for _ in range(3):
        status = await probe(api, "tell(process_status())")
        users.append(int(status["Uid"].split()[0]))
        assert status["Uid"].split() == [str(users[-1])] * 4
        assert status["Gid"].split() == [str(users[-1])] * 4  # 1000 is often the group of a person on the host
        assert status["Groups"].split() in ([], [str(users[-1])])
    assert len(set(users)) == 3
    assert set(users) <= {*lockdown.USERS} | {*lockdown.USERS_OF_A_NAMESPACE}


async def test_the_program_has_no_capability(api):
    status = await probe(api, "tell(process_status())")
    names = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
    assert {name: int(status[name], 16) for name in names} == dict.fromkeys(names, 0)


async def test_no_new_privileges_and_the_seccomp_filter_are_on(api):
    status = await probe(api, "tell(process_status())")
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")


async def test_the_supervisor_is_confined_like_the_program(api):
    code = "tell([os.getuid(), dict(line.split(':\\t', 1) for line in read_file('/proc/1/status').splitlines())])"
    own, status = await probe(api, code)
    assert status["Uid"].split() == [str(own)] * 4
    assert (status["NoNewPrivs"], status["Seccomp"], int(status["CapBnd"], 16)) == ("1", "2", 0)


async def test_only_the_sandboxs_own_processes_are_there(api):
    commands = await probe(
        api, "tell([read_file(f'/proc/{pid}/comm').strip() for pid in os.listdir('/proc') if pid.isdecimal()])"
    )
    assert commands == ["python3", "python3"]


async def test_what_describes_the_host_is_masked(api):
    code = """
def content(path):
    try:
        return os.listdir(path) if os.path.isdir(path) else read_file(path)
    except OSError as error:
        return errno.errorcode[error.errno]
paths = ["/proc/kcore", "/proc/keys", "/proc/cmdline", "/proc/kallsyms", "/sys/firmware", "/sys/kernel", "/sys/module"]
masked = {path: content(path) for path in paths if os.path.exists(path)}
tell([masked, content("/proc/uptime"), content("/sys/fs/cgroup")])
"""
    masked, *control = await probe(api, code)
    assert masked
    assert all(content in ("", [], "EACCES") for content in masked.values()), masked
    assert all(control)


async def test_kernel_settings_cannot_be_written(api):
    paths = ["/proc/sys/vm/overcommit_memory", "/proc/sys/kernel/pid_max", "/proc/1/oom_score_adj", "/sys/fs/cgroup/x"]
    code = f"tell([attempt(write_file, path) for path in {paths}] + [attempt(write_file, '/proc/self/comm', 'mine')])"
    *refused, control = await probe(api, code)
    assert set(refused) <= {"EROFS", "EACCES", "EPERM", "ENOENT"}  # /proc/sys is masked
    assert control == "ok"


# --- resources ---


async def test_memory_is_limited_to_one_gigabyte_without_swap(api):
    assert await probe(api, "tell(int(cgroup_file('memory.max', 'memory/memory.limit_in_bytes')))") == 1 << 30
    code = """
unified = os.path.exists("/sys/fs/cgroup/memory.max")
path = "memory.swap.max" if unified else "memory/memory.memsw.limit_in_bytes"
full = f"/sys/fs/cgroup/{path}"
tell([unified, int(read_file(full)) if os.path.exists(full) else None])
"""
    unified, swap = await probe(api, code)
    # A kernel that does not account for swap has no such file; the sandbox of such a host is checked by inspect.
    assert swap in ((0, None) if unified else (1 << 30, None))


async def test_the_processor_is_limited_to_one(api):
    code = """
unified = os.path.exists("/sys/fs/cgroup/cpu.max")
if unified:
    quota, period = read_file("/sys/fs/cgroup/cpu.max").split()
else:
    quota, period = (read_file(f"/sys/fs/cgroup/cpu/cpu.cfs_{name}_us") for name in ("quota", "period"))
tell(int(quota) / int(period))
"""
    assert await probe(api, code) == 1.0


async def test_two_busy_processes_share_one_processor(api):
    code = """
import time
def burn(seconds):
    while time.process_time() < seconds:
        pass
started = time.monotonic()
children = []
for _ in range(2):
    child = os.fork()
    if child == 0:
        burn(1)
        os._exit(0)
    children.append(child)
used = sum(sum(os.wait4(child, 0)[2][:2]) for child in children)
tell([used, time.monotonic() - started])
"""
    used, elapsed = await probe(api, code)
    assert used >= 2
    assert used / elapsed < 1.25


async def test_processes_are_limited(api):
    assert await probe(api, "tell(int(cgroup_file('pids.max', 'pids/pids.max')))") == 256


async def test_resource_limits_cannot_be_raised(api):
    code = """
import resource
kinds = {name: getattr(resource, name) for name in ("RLIMIT_CORE", "RLIMIT_NOFILE", "RLIMIT_FSIZE", "RLIMIT_MEMLOCK")}
kinds |= {"RLIMIT_SIGPENDING": 11, "RLIMIT_MSGQUEUE": 12}
def can_set(kind, soft, hard):
    try:
        resource.setrlimit(kind, (soft, hard))
    except (ValueError, OSError):
        return False
    return True
found = {name: resource.getrlimit(kind)[1] for name, kind in kinds.items()}
raised = [name for name, kind in kinds.items() if can_set(kind, found[name], found[name] + 1)]
can_set(resource.RLIMIT_NOFILE, 256, found["RLIMIT_NOFILE"])
tell([found, raised, resource.getrlimit(resource.RLIMIT_NOFILE)[0]])
"""
    limits, raised, lowered = await probe(api, code)
    assert limits == {
        "RLIMIT_CORE": 0,
        "RLIMIT_NOFILE": 512,
        "RLIMIT_FSIZE": 500 * MIB,
        "RLIMIT_MEMLOCK": 0,
        "RLIMIT_SIGPENDING": 4096,
        "RLIMIT_MSGQUEUE": 0,
    }
    assert raised == []
    assert lowered == 256


# --- network and ipc ---


async def test_the_only_interface_is_loopback(api):
    code = """
names = [line.partition(":")[0].strip() for line in read_file("/proc/net/dev").splitlines()[2:]]
tell([names, read_file("/proc/net/route").splitlines()[1:]])
"""
    assert await probe(api, code) == [["lo"], []]


async def test_shared_memory_and_message_queues_are_out_of_reach(api):
    code = """
tell([os.path.exists("/dev/shm"), system_call("shmget", 1, 4096, 0o1600), system_call("msgget", 1, 0o1600),
      system_call("semget", 1, 1, 0o1600), attempt(os.pipe)])
"""
    assert await probe(api, code) == [False, "EPERM", "EPERM", "EPERM", "ok"]


# --- the same, as the engine tells it ---


async def test_the_engine_made_the_sandbox_as_it_was_asked(cold, cold_installation):
    async with held(cold) as program:
        (sandbox,) = sandboxes_for(program.execution_id)
        inspected = engine().api.inspect_container(sandbox.id)
    host = inspected["HostConfig"]
    assert (host["ReadonlyRootfs"], host["Privileged"], host["AutoRemove"]) == (True, False, True)
    assert (host["CapDrop"], host["CapAdd"]) == (["ALL"], None)
    assert (host["Memory"], host["MemorySwap"]) == (1 << 30, 1 << 30)
    assert (host["NanoCpus"], host["PidsLimit"]) == (1_000_000_000, 256)
    assert (host["IpcMode"], host["LogConfig"]["Type"]) == ("none", "none")
    assert set(host["Tmpfs"]) == set(TMPFS)
    assert (host["NetworkMode"], inspected["Config"]["NetworkDisabled"]) == ("none", True)
    assert "no-new-privileges:true" in host["SecurityOpt"]
    assert _seccomp_of(host) == json.loads(cold_installation.settings.seccomp_file.read_text())
    user, group = map(int, inspected["Config"]["User"].split(":"))
    assert (user in lockdown.USERS or user in lockdown.USERS_OF_A_NAMESPACE, group) == (True, user)
    assert inspected["Mounts"] == []
    _assert_labels(inspected["Config"]["Labels"], cold_installation.owner, program.execution_id)


def _seccomp_of(host):
    (profile,) = [option for option in host["SecurityOpt"] if option.startswith("seccomp=")]
    return json.loads(profile.removeprefix("seccomp="))


def _assert_labels(labels, owner, execution_id):
    assert labels["mcp-code-executor"] == "sandbox"
    assert labels["mcp-code-executor.owner"] == owner
    assert labels["mcp-code-executor.execution"] == execution_id
    assert int(labels["mcp-code-executor.deadline"]) > 0


async def test_the_code_is_in_no_argument_variable_or_log_of_the_container(cold):
    marker = "only-over-standard-input"
    async with held(cold, f"# {marker}\n{FOREVER}") as program:
        (sandbox,) = sandboxes_for(program.execution_id)
        inspected = json.dumps(engine().api.inspect_container(sandbox.id))
        with pytest.raises(docker.errors.APIError, match="logging driver"):
            engine().api.logs(sandbox.id)
    assert marker not in inspected


# --- refusing ---


@pytest.fixture(scope="module")
async def launched_here(tmp_path_factory):
    """A daemon whose launcher is in this process, where what it asks of the engine can be changed."""
    directory = tmp_path_factory.mktemp("launched-here")
    whole = Installation.create(directory, warm_floor=0, warm_ceiling=0)
    with with_launcher_here(whole, directory) as installation:
        async with installation.run() as api:
            yield api, installation


@pytest.mark.parametrize(
    ("key", "weaker"),
    [
        ("ReadonlyRootfs", False),
        ("CapDrop", []),
        ("PidsLimit", None),
        ("Binds", ["/:/host:ro"]),
        ("SecurityOpt", ["seccomp=unconfined"]),
        ("Memory", 2 << 30),
        ("IpcMode", "private"),
    ],
)
async def test_a_sandbox_that_the_engine_made_weaker_never_runs(launched_here, monkeypatch, key, weaker):
    cold, installation = launched_here
    asked_for = docker.APIClient.create_container_from_config
    made = {}

    def weaken(self, config, *arguments, **options):
        """Only what is made for an execution here; other daemons of this process fill their pools meanwhile."""
        labels = config["Labels"]
        if (labels[LABEL], labels[f"{LABEL}.owner"]) != ("sandbox", installation.owner):
            return asked_for(self, config, *arguments, **options)
        host = {**config["HostConfig"], key: weaker, "MemorySwap": -1 if key == "Memory" else 1 << 30}
        container = asked_for(self, {**config, "HostConfig": host}, *arguments, **options)
        made[container["Id"]] = labels[f"{LABEL}.execution"]
        return container

    monkeypatch.setattr(docker.APIClient, "create_container_from_config", weaken)
    status, problem = await cold.post("/execute", {"code": "print('ran')", "language": "python"})
    assert (status, problem["code"]) == (503, "lockdown_mismatch")
    assert key in problem["detail"] or "MemorySwap" in problem["detail"]
    assert list(made.values()) == [problem["executionId"]]
    await until(lambda: not sandboxes_for(problem["executionId"]))
    monkeypatch.undo()
    assert (await cold.python("print('ran')"))["output"] == "ran\n"

"""The system call filter as a whole: what the profile does not name is refused, and so are the wrong arguments."""

import json
from pathlib import Path

import pytest

from tests.support.installation import PROJECT
from tests.support.programs import probe
from tests.support.trapping import trapping_installation

NUMBERS = json.loads((Path(__file__).parents[1] / "support" / "system_calls_x86_64.json").read_text())
RULES = json.loads((PROJECT / "runner-image" / "seccomp.json").read_text())["syscalls"]
NAMED = {name for rule in RULES for name in rule["names"]}

# With arguments that no call accepts, so that nothing happens should one be let through.
ASK_THE_FILTER = """
import signal
def in_a_child(number, *arguments):
    child = os.fork()
    if child == 0:
        signal.alarm(2)
        passed = arguments or [-1] * 6
        result = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(each) for each in passed))
        os._exit(0 if result >= 0 else min(ctypes.get_errno(), 255))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {0: "ok", -signal.SIGSYS: "refused"}.get(code) or errno.errorcode.get(code, str(code))
"""
ONLY_X86_64 = "if os.uname().machine != 'x86_64': tell(None); raise SystemExit\n"


@pytest.fixture(scope="module")
async def trapping(tmp_path_factory):
    async with trapping_installation(tmp_path_factory.mktemp("trapping")).run() as api:
        yield api


async def ask_the_filter(api, code):
    told = await probe(api, ASK_THE_FILTER + ONLY_X86_64 + code, 60)
    if told is None:
        pytest.skip("the table holds the numbers of x86_64")
    return told


async def test_every_system_call_that_the_profile_does_not_name_is_refused(trapping):
    # What is younger than every named call, the runtime makes unknown, so that libraries fall back.
    youngest = max(NUMBERS[name] for name in NAMED & NUMBERS.keys())
    unnamed = {name: number for name, number in NUMBERS.items() if name not in NAMED and number <= youngest}
    assert len(unnamed) > 130
    answers = await ask_the_filter(trapping, f"tell({{name: in_a_child(n) for name, n in {unnamed}.items()}})")
    assert {name for name, answer in answers.items() if answer != "refused"} == set()


async def test_a_call_that_the_profile_names_is_let_through(trapping):
    """The control: the same question about calls that are allowed."""
    allowed = {name: NUMBERS[name] for name in ("close", "chdir", "kill", "getpid")}
    answers = await ask_the_filter(trapping, f"tell({{name: in_a_child(n) for name, n in {allowed}.items()}})")
    assert answers == {"close": "EBADF", "chdir": "EFAULT", "kill": "EINVAL", "getpid": "ok"}


async def test_only_streams_within_the_sandbox_are_let_through(trapping):
    """Those of the internet are refused with a reason, which programs know how to tell; all others without one."""
    code = f"""
answers = [[family, kind, in_a_child({NUMBERS["socket"]}, family, kind, 0)] for family in range(46)
           for kind in (1, 2, 3, 4, 5, 6, 10)]
tell([answer for answer in answers if answer[2] != "refused"])
"""
    let_through = await ask_the_filter(trapping, code)
    told_why = [[family, kind, "ENETUNREACH"] for family in (2, 10) for kind in (1, 2, 3, 4, 5, 6, 10)]
    assert let_through == [[1, 1, "ok"], *told_why]


async def sweep(api, numbers):
    """What each call answers."""
    return await ask_the_filter(api, f"tell({{name: in_a_child(n) for name, n in {numbers}.items()}})")


async def test_calls_younger_than_the_profile_are_refused_or_unknown(api):
    youngest = max(NUMBERS[name] for name in NAMED & NUMBERS.keys())
    younger = {name: number for name, number in NUMBERS.items() if number > youngest}
    assert younger
    assert set((await sweep(api, younger)).values()) <= {"EPERM", "ENOSYS"}


async def test_the_sweep_of_that_test_tells_other_answers_apart(api):
    control = {name: NUMBERS[name] for name in ("close", "dup", "clone3", "chdir")}
    assert await sweep(api, control) == {"close": "EBADF", "dup": "EBADF", "clone3": "ENOSYS", "chdir": "EFAULT"}


async def test_numbers_beyond_every_known_call_are_refused(api):
    unknown = {str(number): number for number in (600, 1000, 4096, 2**29)}
    assert set((await sweep(api, unknown)).values()) <= {"EPERM", "ENOSYS"}


async def test_the_supervisor_cannot_be_rescheduled_or_limited(api):
    numbers = {name: NUMBERS[name] for name in ("sched_setattr", "sched_setparam", "sched_setscheduler")}
    code = f"""
numbers = {numbers} | {{"prlimit64": NUMBERS["prlimit64"][0], "sched_setaffinity": NUMBERS["sched_setaffinity"][0]}}
zeros = ctypes.create_string_buffer(64)
def call(name, pid, *rest):
    result = libc.syscall(ctypes.c_long(numbers[name]), ctypes.c_long(pid), *rest)
    return "ok" if result >= 0 else errno.errorcode[ctypes.get_errno()]
def all_of(pid):
    struct.pack_into("=IIQiIQQQ", attributes, 0, 48, 0, 0, 19, 0, 0, 0, 0)
    return [call("sched_setattr", pid, attributes, 0), call("sched_setparam", pid, zeros),
            call("sched_setscheduler", pid, 0, zeros), call("prlimit64", pid, 4, 0, 0),
            call("sched_setaffinity", pid, 8, mask)]
attributes = ctypes.create_string_buffer(64)
mask = ctypes.create_string_buffer(b"\\xff" * 8)
priority = [attempt(os.setpriority, os.PRIO_PROCESS, 1, 19), attempt(os.setpriority, os.PRIO_USER, 0, 19),
            attempt(os.setpriority, os.PRIO_PGRP, 0, 19)]
tell([all_of(1) + priority, all_of(0) + [attempt(os.setpriority, os.PRIO_PROCESS, 0, 19)]])
"""
    foreign, own = await probe(api, ONLY_X86_64 + code)
    assert foreign == ["EPERM"] * 8
    assert own == ["ok"] * 6


async def test_socket_pairs_of_other_families_are_refused(api):
    code = """
def pair(family):
    for end in socket.socketpair(family, socket.SOCK_STREAM):
        end.close()
tell([attempt(pair, family) for family in (2, 10, 16, 30, 38, 40)] + [attempt(pair, 1)])
"""
    assert await probe(api, code) == ["EPERM"] * 6 + ["ok"]


async def test_not_even_the_harmless_device_node_of_an_overlay_can_be_made(api):
    """A whiteout (0, 0) needs no capability since Linux 5.8, so only the filter refuses it."""
    code = """
import stat
def node(kind, number):
    return attempt(os.mknod, f"/workspace/{kind}", kind | 0o600, number)
kinds = (stat.S_IFCHR, stat.S_IFREG, stat.S_IFSOCK, stat.S_IFIFO)
tell([node(kind, 0) for kind in kinds])
"""
    assert await probe(api, code) == ["EPERM", "EPERM", "EPERM", "ok"]
    # The library makes nodes by mknodat; the older call has to be asked for by its number.
    older = f"""
import stat
def node(kind):
    result = libc.syscall(ctypes.c_long({NUMBERS["mknod"]}), f"/workspace/{{kind}}".encode(), kind | 0o600, 0)
    return "ok" if result == 0 else errno.errorcode[ctypes.get_errno()]
tell([node(kind) for kind in (stat.S_IFCHR, stat.S_IFREG, stat.S_IFSOCK, stat.S_IFIFO)])
"""
    assert await probe(api, ONLY_X86_64 + older) in (["EPERM", "EPERM", "EPERM", "ok"], None)


async def test_the_way_addresses_are_chosen_cannot_be_changed(api):
    code = """
libc.personality.argtypes = [ctypes.c_ulong]
def become(persona):
    ctypes.set_errno(0)
    return "ok" if libc.personality(persona) >= 0 else errno.errorcode[ctypes.get_errno()]
without_random_addresses, executable_data, bug_emulation = 0x0040000, 0x0400000, 0x0100000
tell([become(p) for p in (without_random_addresses, executable_data, bug_emulation, 8)] + [become(0xffffffff)])
"""
    assert await probe(api, code) == ["EPERM"] * 4 + ["ok"]

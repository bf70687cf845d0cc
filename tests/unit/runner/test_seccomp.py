"""The seccomp profile as a document; what it does is seen from inside a sandbox."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.runner.supervised import RUNNER

PROFILE: dict[str, Any] = json.loads((RUNNER.parent / "seccomp.json").read_text())
RULES: list[dict[str, Any]] = PROFILE["syscalls"]

FORBIDDEN = [
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "keyctl",
    "add_key",
    "request_key",
    "userfaultfd",
    "bpf",
    "perf_event_open",
    "unshare",
    "setns",
    "mount",
    "umount",
    "umount2",
    "move_mount",
    "open_tree",
    "fsopen",
    "fsmount",
    "fsconfig",
    "fspick",
    "mount_setattr",
    "kexec_load",
    "kexec_file_load",
    "init_module",
    "finit_module",
    "delete_module",
    "open_by_handle_at",
    "name_to_handle_at",
    "pidfd_getfd",
    "process_madvise",
    "kcmp",
    "quotactl",
    "swapon",
    "swapoff",
    "acct",
    "settimeofday",
    "clock_settime",
    "adjtimex",
    "clock_adjtime",
    "syslog",
    "vhangup",
    "chroot",
    "pivot_root",
    "iopl",
    "ioperm",
    "reboot",
    "sethostname",
    "setdomainname",
    "memfd_create",
    "memfd_secret",
    "execveat",
    "seccomp",
    "shmget",
    "semget",
    "msgget",
    "setuid",
    "setgid",
    "setresuid",
    "setresgid",
    "setgroups",
    "capset",
    "modify_ldt",
    "fanotify_init",
]


def rules_for(name: str) -> list[dict[str, Any]]:
    return [rule for rule in RULES if name in rule["names"]]


def test_everything_not_named_is_refused() -> None:
    assert (PROFILE["defaultAction"], PROFILE["defaultErrnoRet"]) == ("SCMP_ACT_ERRNO", 1)


def test_no_foreign_abi_is_known() -> None:
    assert {entry["architecture"]: entry["subArchitectures"] for entry in PROFILE["archMap"]} == {
        "SCMP_ARCH_X86_64": [],
        "SCMP_ARCH_AARCH64": [],
    }


@pytest.mark.parametrize("name", FORBIDDEN)
def test_dangerous_call_is_not_named(name: str) -> None:
    assert rules_for(name) == []


@pytest.mark.parametrize(
    "name",
    [
        *("clone", "socket", "socketpair", "personality", "mknod", "mknodat", "setpriority", "prlimit64"),
        *("sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler", "setsockopt", "prctl"),
    ],
)
def test_call_is_allowed_only_with_certain_arguments(name: str) -> None:
    assert rules_for(name)
    assert all(rule["args"] for rule in rules_for(name))


def test_clone3_pretends_not_to_exist() -> None:
    (rule,) = rules_for("clone3")
    assert (rule["action"], rule["errnoRet"]) == ("SCMP_ACT_ERRNO", 38)


def test_clone_makes_no_namespace() -> None:
    (rule,) = rules_for("clone")
    new_namespaces = 0x20000 | 0x2000000 | 0x4000000 | 0x8000000 | 0x10000000 | 0x20000000 | 0x40000000
    assert rule["args"] == [{"index": 0, "value": new_namespaces, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}]


def allowed(name: str) -> set[tuple[int, ...]]:
    rules = [rule for rule in rules_for(name) if rule["action"] == "SCMP_ACT_ALLOW"]
    return {tuple(arg.get("valueTwo", arg["value"]) for arg in rule["args"]) for rule in rules}


def test_only_unix_stream_sockets_of_protocol_0_are_made() -> None:
    assert allowed("socket") == {(1, 1, 0)}
    assert allowed("socketpair") == {(1, 0)}


def test_who_asks_for_the_network_is_told_that_there_is_none() -> None:
    refused = [rule for rule in rules_for("socket") if rule["action"] == "SCMP_ACT_ERRNO"]
    assert [(rule["errnoRet"], rule["args"][0]["value"]) for rule in refused] == [(101, 2), (101, 10)]


def test_no_option_of_a_socket_attaches_a_filter() -> None:
    sol_socket, attaching = 1, {26, 27, 36, 44, 50, 51, 52}
    assert {level for level, _ in allowed("setsockopt")} == {sol_socket}
    assert not {option for _, option in allowed("setsockopt")} & attaching


def test_no_option_of_a_process_installs_a_filter() -> None:
    assert (22,) not in allowed("prctl")


def test_no_rule_depends_on_capabilities_and_each_says_what_it_is_for() -> None:
    assert all(not {"includes", "excludes"} & rule.keys() and rule["comment"] for rule in RULES)


def test_no_call_is_named_twice_without_arguments() -> None:
    unconditional = [name for rule in RULES if "args" not in rule for name in rule["names"]]
    assert len(unconditional) == len(set(unconditional))

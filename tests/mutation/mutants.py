"""Every hardening option, taken away: the ways in which a sandbox could be weaker than the lockdown says."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.engines.docker.lockdown import MASKED_PATHS, READONLY_PATHS

Config = dict[str, Any]
Change = Callable[[Config], None]

TMPFS = ("/workspace", "/tmp", "/tmp/executions")
HIGHER = {
    "core": 1 << 30,
    "fsize": 1 << 40,
    "memlock": 65_536,
    "msgqueue": 819_200,
    "nofile": 4096,
    "sigpending": 65_536,
}
PLENTY = 4 * 1024**3
SOCKET_FAMILIES = {
    16: "netlink",
    17: "packet",
    29: "can",
    30: "tipc",
    31: "bluetooth",
    38: "alg",
    40: "vsock",
    44: "xdp",
}


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    group: str
    change: Change

    def applied_to(self, config: Config) -> Config:
        changed = copy.deepcopy(config)
        self.change(changed)
        return changed


def all_mutants(profile: Mapping[str, Any], system_calls: Mapping[str, int]) -> list[Mutant]:
    return [
        *_of_options(),
        *_of_paths(),
        *_of_tmpfs(),
        *_of_ulimits(),
        *_of_the_network(),
        *_of_arguments(profile),
        *_of_system_calls(profile, system_calls),
    ]


def _host(key: str, value: Any) -> Change:
    def change(config: Config) -> None:
        config["HostConfig"][key] = value

    return change


def _unlabelled(key: str, value: Any) -> Change:
    """The engine itself adds an option to such a container; it is expected here, so that the tests have to notice."""

    def change(config: Config) -> None:
        config["HostConfig"][key] = value
        config["HostConfig"]["SecurityOpt"].append("label=disable")

    return change


def _top(key: str, value: Any) -> Change:
    def change(config: Config) -> None:
        config[key] = value

    return change


def _of_options() -> Iterator[Mutant]:
    yield Mutant("root instead of a user of its own", "user", _top("User", "0:0"))
    yield Mutant("the same user for all", "user", _same_user)
    yield Mutant("stdin survives the daemon", "leash", _top("StdinOnce", False))
    yield Mutant("the root is writable", "files", _host("ReadonlyRootfs", False))
    yield Mutant("capabilities are kept", "privileges", _host("CapDrop", []))
    yield Mutant("privileged", "privileges", _unlabelled("Privileged", True))
    yield Mutant("new privileges are allowed", "privileges", _security(lambda option: not option.startswith("no-new")))
    yield Mutant("no system call filter", "filter", _without_filter)
    yield Mutant("the engine's default filter", "filter", _security(lambda option: not option.startswith("seccomp=")))
    yield Mutant("shared memory", "ipc", _host("IpcMode", "private"))
    yield Mutant("the host's cgroup namespace", "namespaces", _host("CgroupnsMode", "host"))
    yield Mutant("the host's processes", "namespaces", _unlabelled("PidMode", "host"))
    yield Mutant("the host's name", "namespaces", _host("UTSMode", "host"))
    yield Mutant("it stays after its end", "inspected", _host("AutoRemove", False))
    yield Mutant("its output is logged", "inspected", _host("LogConfig", {"Type": "json-file", "Config": {}}))
    yield Mutant("four gigabytes", "resources", _memory)
    yield Mutant("swap", "resources", _host("MemorySwap", PLENTY))
    yield Mutant("two processors", "resources", _host("NanoCpus", 2_000_000_000))
    yield Mutant("processes without number", "resources", _host("PidsLimit", 4096))
    yield Mutant("as dear to the host as its services", "resources", _host("OomScoreAdj", 0))


def _same_user(config: Config) -> None:
    own = config["User"].partition(":")[0]
    config["User"] = "1000:1000"
    mounts = config["HostConfig"]["Tmpfs"]
    config["HostConfig"]["Tmpfs"] = {path: o.replace(f"uid={own},", "uid=1000,") for path, o in mounts.items()}


def _security(keep: Callable[[str], bool]) -> Change:
    def change(config: Config) -> None:
        config["HostConfig"]["SecurityOpt"] = [each for each in config["HostConfig"]["SecurityOpt"] if keep(each)]

    return change


def _without_filter(config: Config) -> None:
    _security(lambda option: not option.startswith("seccomp="))(config)
    config["HostConfig"]["SecurityOpt"].append("seccomp=unconfined")


def _memory(config: Config) -> None:
    config["HostConfig"] |= {"Memory": PLENTY, "MemorySwap": PLENTY}


def _of_paths() -> Iterator[Mutant]:
    for kind, paths in (("MaskedPaths", MASKED_PATHS), ("ReadonlyPaths", READONLY_PATHS)):
        for path in paths:
            yield Mutant(f"{kind} without {path}", "paths", _without_path(kind, path))


def _without_path(kind: str, path: str) -> Change:
    def change(config: Config) -> None:
        config["HostConfig"][kind].remove(path)

    return change


def _of_tmpfs() -> Iterator[Mutant]:
    # The engine itself adds what is left out of these, so each is turned into its opposite.
    changes = {"noexec": "exec", "nosuid": "suid", "nodev": "dev", "size": "size=1g", "nr_inodes": "nr_inodes=2000000"}
    for path in TMPFS:
        for option, instead in changes.items():
            yield Mutant(f"{path} with {instead}", "tmpfs", _tmpfs(path, option, instead))


def _tmpfs(path: str, option: str, instead: str) -> Change:
    def change(config: Config) -> None:
        options = config["HostConfig"]["Tmpfs"][path].split(",")
        kept = [instead if each.split("=")[0] == option else each for each in options]
        config["HostConfig"]["Tmpfs"][path] = ",".join(kept)

    return change


def _of_ulimits() -> Iterator[Mutant]:
    for name, value in HIGHER.items():
        yield Mutant(f"a higher limit of {name}", "ulimits", _raise_ulimit(name, value))


def _raise_ulimit(name: str, value: int) -> Change:
    def change(config: Config) -> None:
        kept = [each for each in config["HostConfig"]["Ulimits"] if each["Name"] != name]
        config["HostConfig"]["Ulimits"] = [*kept, {"Name": name, "Soft": value, "Hard": value}]

    return change


def _of_the_network() -> Iterator[Mutant]:
    yield Mutant("the engine's bridge", "network", _network("bridge"))
    yield Mutant("the host's network", "network", _network("host"))


def _network(mode: str) -> Change:
    def change(config: Config) -> None:
        config["NetworkDisabled"] = False
        config["HostConfig"]["NetworkMode"] = mode

    return change


def _of_arguments(profile: Mapping[str, Any]) -> Iterator[Mutant]:
    limited = {name for rule in profile["syscalls"] if "args" in rule for name in rule["names"]}
    for name in sorted(limited | {"clone3"}):
        yield Mutant(f"{name} with any arguments", "arguments", _allowing({"names": [name]}))
    for number, name in SOCKET_FAMILIES.items():
        family = {"index": 0, "value": number, "op": "SCMP_CMP_EQ"}
        yield Mutant(f"sockets of {name}", "arguments", _allowing({"names": ["socket"], "args": [family]}))
    for architecture in ("SCMP_ARCH_X86", "SCMP_ARCH_X32"):
        yield Mutant(f"foreign calls of {architecture}", "architecture", _profile(_with_architecture(architecture)))


def _with_architecture(architecture: str) -> Change:
    def change(profile: Config) -> None:
        profile["archMap"][0]["subArchitectures"].append(architecture)

    return change


def _of_system_calls(profile: Mapping[str, Any], system_calls: Mapping[str, int]) -> Iterator[Mutant]:
    named = {name for rule in profile["syscalls"] for name in rule["names"]}
    for name in sorted(system_calls.keys() - named, key=lambda name: system_calls[name]):
        yield Mutant(f"system call {name}", "filter", _allowing({"names": [name]}))


def _allowing(rule: Config) -> Change:
    def change(profile: Config) -> None:
        names = set(rule["names"])
        if "args" not in rule:
            profile["syscalls"] = [each for each in profile["syscalls"] if not names & set(each["names"])] + [
                {**each, "names": [name for name in each["names"] if name not in names]}
                for each in profile["syscalls"]
                if names & set(each["names"]) and set(each["names"]) - names
            ]
        profile["syscalls"].append({"action": "SCMP_ACT_ALLOW", **rule})

    return _profile(change)


def _profile(change: Change) -> Change:
    """A change of the filter, inside the text in which the engine gets it."""

    def change_config(config: Config) -> None:
        options = config["HostConfig"]["SecurityOpt"]
        (text,) = [option for option in options if option.startswith("seccomp=")]
        profile = json.loads(text.removeprefix("seccomp="))
        change(profile)
        options[options.index(text)] = f"seccomp={json.dumps(profile)}"

    return change_config

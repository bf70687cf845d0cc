"""The lockdown as flags of the docker command, for the contestant who starts the same container by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bench.paths import RUNNER_IMAGE, SECCOMP
from orchestrator.domain.execution import Language
from orchestrator.engines.docker.lockdown import USERS, Bounds, Confinement, Identity, sandbox_config
from orchestrator.settings import Settings

Flags = list[str]

# The command line cannot say these, so a container started by hand has the engine's shorter lists.
WITHOUT_A_FLAG = {"MaskedPaths", "ReadonlyPaths"}
# These are said otherwise: by --rm, by --network, and by a restart policy of "no", which is the default.
SAID_ELSEWHERE = {"AutoRemove", "NetworkMode", "RestartPolicy"}


def _value(flag: str) -> Callable[[Any], Flags]:
    return lambda value: [f"{flag}={value}"]


def _each(flag: str) -> Callable[[Any], Flags]:
    return lambda values: [f"{flag}={value}" for value in values]


def _security(options: list[str]) -> Flags:
    # The engine takes the profile's text, the command line takes its file.
    said = [f"seccomp={SECCOMP}" if option.startswith("seccomp=") else option for option in options]
    return _each("--security-opt")(said)


FLAG_OF: dict[str, Callable[[Any], Flags]] = {
    "ReadonlyRootfs": lambda _: ["--read-only"],
    "CapDrop": _each("--cap-drop"),
    "SecurityOpt": _security,
    "IpcMode": _value("--ipc"),
    "CgroupnsMode": _value("--cgroupns"),
    "Runtime": _value("--runtime"),
    "LogConfig": lambda config: [f"--log-driver={config['Type']}"],
    "Memory": _value("--memory"),
    "MemorySwap": _value("--memory-swap"),
    "NanoCpus": lambda nano: [f"--cpus={nano / 1e9:g}"],
    "PidsLimit": _value("--pids-limit"),
    "OomScoreAdj": _value("--oom-score-adj"),
    "Ulimits": lambda limits: [f"--ulimit={limit['Name']}={limit['Soft']}:{limit['Hard']}" for limit in limits],
    "Tmpfs": lambda mounts: [f"--tmpfs={path}:{options}" for path, options in mounts.items()],
}


def lockdown_flags() -> Flags:
    config = _config()
    flags = [f"--user={config['User']}", f"--workdir={config['WorkingDir']}"]
    flags += _each("--env")(config["Env"])
    for option, value in _chosen(config["HostConfig"]).items():
        flags += FLAG_OF[option](value)
    return flags


def _chosen(options: Mapping[str, Any]) -> dict[str, Any]:
    said = {option: value for option, value in options.items() if value}
    unknown = said.keys() - FLAG_OF.keys() - WITHOUT_A_FLAG - SAID_ELSEWHERE
    if unknown:
        raise NotImplementedError(f"bench/docker_flags.py has no flag for {', '.join(sorted(unknown))}.")
    return {option: value for option, value in said.items() if option in FLAG_OF}


def _config() -> dict[str, Any]:
    settings = Settings()
    limits = settings.limits(None)
    bounds = Bounds(
        memory_bytes=limits.memory_bytes,
        cpus=limits.cpus,
        max_processes=limits.max_processes,
        workspace_bytes=limits.workspace_bytes,
        scratch_bytes=limits.scratch_bytes,
    )
    confinement = Confinement(RUNNER_IMAGE, SECCOMP.read_text(), settings.runtime)
    identity = Identity("bench", "bench", "bench", deadline=0)
    return sandbox_config(Language.PYTHON, 3600, USERS[0], bounds, confinement, identity)

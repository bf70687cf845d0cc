"""A sandbox that the engine made otherwise than asked is noticed, whatever the difference."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from orchestrator.domain.execution import Language, Limits, Recipe
from orchestrator.domain.sandbox import SandboxSpec
from orchestrator.engines.docker.lockdown import Confinement, Identity, differences, sandbox_config, slot_config

POLICY = Confinement(image="runner", network="net", seccomp_profile='{"syscalls": []}', runtime="runc")
IDENTITY = Identity(owner="owner", epoch="epoch")
LIMITS = Limits(
    timeout_seconds=300,
    max_output_bytes=102_400,
    memory_bytes=1 << 30,
    cpus=1,
    max_processes=256,
    workspace_bytes=500 << 20,
    scratch_bytes=100 << 20,
)

WEAKER_HOST_CONFIG: dict[str, Any] = {
    "AutoRemove": False,
    "Binds": ["/:/host"],
    "CapAdd": ["SYS_ADMIN"],
    "CapDrop": None,
    "CgroupParent": "/elsewhere",
    "CgroupnsMode": "host",
    "DeviceCgroupRules": ["a *:* rwm"],
    "DeviceRequests": [{"Driver": "nvidia"}],
    "Devices": [{"PathOnHost": "/dev/kmem"}],
    "GroupAdd": ["0"],
    "Init": True,
    "IpcMode": "host",
    "Links": ["/database:/database"],
    "LogConfig": {"Type": "json-file", "Config": {}},
    "MaskedPaths": [],
    "Memory": 0,
    "MemorySwap": -1,
    "Mounts": [{"Type": "bind", "Source": "/", "Target": "/host"}],
    "NanoCpus": 0,
    "NetworkMode": "host",
    "OomKillDisable": True,
    "OomScoreAdj": -1000,
    "PidMode": "host",
    "PidsLimit": 0,
    "PortBindings": {"80/tcp": [{"HostPort": "80"}]},
    "Privileged": True,
    "PublishAllPorts": True,
    "ReadonlyPaths": [],
    "ReadonlyRootfs": False,
    "RestartPolicy": {"Name": "always", "MaximumRetryCount": 0},
    "Runtime": "another",
    "SecurityOpt": ["seccomp=unconfined"],
    "Sysctls": {"net.ipv4.ip_forward": "1"},
    "Tmpfs": {"/workspace": "exec"},
    "UTSMode": "host",
    "Ulimits": [],
    "UsernsMode": "host",
    "VolumeDriver": "nfs",
    "VolumesFrom": ["other"],
}
WEAKER_CONFIG: dict[str, Any] = {
    "AttachStderr": False,
    "AttachStdin": False,
    "AttachStdout": False,
    "Cmd": ["sh"],
    "Entrypoint": ["sh"],
    "Env": ["LD_PRELOAD=/tmp/x.so"],
    "ExposedPorts": {"80/tcp": {}},
    "Image": "another",
    "OpenStdin": False,
    "StdinOnce": False,
    "Tty": True,
    "User": "0:0",
    "Volumes": {"/data": {}},
    "WorkingDir": "/",
}


@pytest.fixture
def config() -> dict[str, Any]:
    spec = SandboxSpec(Recipe(Language.PYTHON), LIMITS, "execution", 360)
    return sandbox_config(spec, "slot", POLICY, IDENTITY, 1000)


def as_inspected(config: dict[str, Any]) -> dict[str, Any]:
    made = deepcopy(config)
    host_config = made.pop("HostConfig")
    return {"HostConfig": host_config, "Config": made, "Mounts": []}


def test_a_sandbox_made_as_asked_has_no_differences(config):
    assert differences(config, as_inspected(config)) == []


def test_the_engines_own_additions_are_no_differences(config):
    made = as_inspected(config)
    made["Config"]["Labels"]["of.the.image"] = "joined"
    made["Config"]["Hostname"] = "sandbox"
    made["HostConfig"]["ConsoleSize"] = [0, 0]
    assert differences(config, made) == []


@pytest.mark.parametrize("empty", [None, False, "", [], {}, 0])
def test_the_engine_may_write_an_empty_value_as_it_pleases(config, empty):
    made = as_inspected(config)
    made["HostConfig"]["Binds"] = empty
    assert differences(config, made) == []


def test_every_key_that_is_asked_for_has_a_weaker_value_here(config):
    assert set(WEAKER_HOST_CONFIG) == set(config["HostConfig"])
    assert set(WEAKER_CONFIG) == set(config) - {"HostConfig", "Labels"}


@pytest.mark.parametrize("key", WEAKER_HOST_CONFIG)
def test_a_weaker_host_config_is_refused(config, key):
    made = as_inspected(config)
    made["HostConfig"][key] = WEAKER_HOST_CONFIG[key]
    assert [found.split(":")[0] for found in differences(config, made)] == [f"HostConfig.{key}"]


@pytest.mark.parametrize("key", WEAKER_CONFIG)
def test_another_process_than_ours_is_refused(config, key):
    made = as_inspected(config)
    made["Config"][key] = WEAKER_CONFIG[key]
    assert [found.split(":")[0] for found in differences(config, made)] == [f"Config.{key}"]


@pytest.mark.parametrize(
    "key",
    [
        "CapDrop",
        "IpcMode",
        "MaskedPaths",
        "Memory",
        "MemorySwap",
        "NanoCpus",
        "NetworkMode",
        "PidsLimit",
        "ReadonlyRootfs",
        "SecurityOpt",
        "Tmpfs",
        "Ulimits",
    ],
)
def test_a_lockdown_line_that_the_engine_does_not_know_is_refused(config, key):
    made = as_inspected(config)
    del made["HostConfig"][key]
    assert [found.split(":")[0] for found in differences(config, made)] == [f"HostConfig.{key}"]


@pytest.mark.parametrize("label", ["", ".owner", ".epoch", ".execution", ".deadline"])
def test_a_label_that_is_missing_or_other_is_refused(config, label):
    made = as_inspected(config)
    made["Config"]["Labels"][f"mcp-code-executor{label}"] = "other"
    assert len(differences(config, made)) == 1
    del made["Config"]["Labels"][f"mcp-code-executor{label}"]
    assert len(differences(config, made)) == 1


def test_a_mount_from_anywhere_is_refused(config):
    made = as_inspected(config)
    made["Mounts"] = [{"Type": "volume", "Destination": "/data"}]
    assert len(differences(config, made)) == 1


def test_a_slot_gets_the_capability_to_narrow_its_network_and_nothing_else():
    host_config = slot_config(POLICY, IDENTITY)["HostConfig"]
    assert (host_config["CapAdd"], host_config["CapDrop"], host_config["Privileged"]) == (["NET_ADMIN"], ["ALL"], False)
    assert host_config["ReadonlyRootfs"] is True


def test_a_slot_made_otherwise_than_asked_is_noticed_too():
    config = slot_config(POLICY, IDENTITY)
    made = as_inspected(config)
    assert differences(config, made) == []
    made["HostConfig"]["CapAdd"] = ["NET_ADMIN", "SYS_ADMIN"]
    assert len(differences(config, made)) == 1

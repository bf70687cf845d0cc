"""A sandbox that the engine made otherwise than asked is noticed, whatever the difference."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from orchestrator.domain.execution import Language
from orchestrator.engines.docker.lockdown import Bounds, Confinement, Identity, differences, sandbox_config

POLICY = Confinement(image="runner", seccomp_profile='{"syscalls": []}', runtime="runc")
IDENTITY = Identity(owner="owner", epoch="epoch", execution_id="execution", deadline=1000)
BOUNDS = Bounds(
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
    "Hostname": "the-hosts",
    "Image": "another",
    "NetworkDisabled": False,
    "OpenStdin": False,
    "StdinOnce": False,
    "Tty": True,
    "User": "0:0",
    "Volumes": {"/data": {}},
    "WorkingDir": "/",
}


@pytest.fixture
def config() -> dict[str, Any]:
    return sandbox_config(Language.PYTHON, 360, 1_900_000_001, BOUNDS, POLICY, IDENTITY)


def as_inspected(config: dict[str, Any]) -> dict[str, Any]:
    made = deepcopy(config)
    host_config = made.pop("HostConfig")
    return {"HostConfig": host_config, "Config": made, "Mounts": []}


def test_a_sandbox_made_as_asked_has_no_differences(config):
    assert differences(config, as_inspected(config)) == []


def test_the_engines_own_additions_are_no_differences(config):
    made = as_inspected(config)
    made["Config"]["Labels"]["of.the.image"] = "joined"
    made["Config"]["Domainname"] = "sandbox"
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


def test_all_processes_of_a_sandbox_together_open_no_more_files_than_is_told(config):
    (limit,) = [each for each in config["HostConfig"]["Ulimits"] if each["Name"] == "nofile"]
    assert limit == {"Name": "nofile", "Soft": 512, "Hard": 512}
    assert BOUNDS.max_files == 512 * config["HostConfig"]["PidsLimit"]


def test_two_users_of_sandboxes_differ_in_nothing_but_the_user(config):
    other = sandbox_config(Language.PYTHON, 360, 1_900_000_002, BOUNDS, POLICY, IDENTITY)
    assert (config.pop("User"), other.pop("User")) == ("1900000001:1900000001", "1900000002:1900000002")
    for made, user in ((config, 1_900_000_001), (other, 1_900_000_002)):
        assert all(f"uid={user},gid={user}" in options for options in made["HostConfig"].pop("Tmpfs").values())
    assert config == other

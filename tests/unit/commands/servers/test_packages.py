"""What npx and uvx would run: taken apart from its words, pinned, and found in what was fetched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.commands.servers.packages import (
    Launch,
    NotRunnable,
    Runner,
    command_of,
    parse,
    pin,
    without_install_scripts,
    write_wish,
)


def npx(package: str, version: str = "", command: str = "", arguments: tuple[str, ...] = ()) -> Launch:
    return Launch(Runner.NPX, package, version, "", command, arguments)


def uvx(package: str, version: str = "", command: str = "", extras: str = "") -> Launch:
    return Launch(Runner.UVX, package, version, extras, command, ())


@pytest.mark.parametrize(
    ("words", "launch"),
    [
        ("npx -y some-server@1.2.3", npx("some-server", "1.2.3")),
        ("npx --yes @scope/server", npx("@scope/server")),
        ("npx @scope/server@latest", npx("@scope/server")),
        ("npx @scope/server@^1.2 --port 80 -y", npx("@scope/server", "^1.2", arguments=("--port", "80", "-y"))),
        ("npx -y --package=@scope/tools@1 serve /data", npx("@scope/tools", "1", "serve", ("/data",))),
        ("npx -p tools serve", npx("tools", command="serve")),
        ("npx -y -- some-server", npx("some-server")),
        ("uvx some-server", uvx("some-server")),
        ("uvx some-server==1.2", uvx("some-server", "1.2")),
        ("uvx some-server@1.2", uvx("some-server", "1.2")),
        ("uvx Some.Server[cli,http]==1.2rc1", uvx("Some.Server", "1.2rc1", extras="[cli,http]")),
        ("uvx --from some-tools==2 serve", uvx("some-tools", "2", "serve")),
        ("uv tool run some-server@latest", uvx("some-server")),
    ],
)
def test_a_command_says_which_package_is_meant_and_what_it_is_given(words: str, launch: Launch):
    assert parse(words.split()) == launch


@pytest.mark.parametrize(
    "words",
    [
        ["npx", "-y", "git+ssh://git@example.com/owner/server.git"],
        ["npx", "-y", "owner/server"],
        ["npx", "-y", "github:owner/server"],
        ["npx", "-y", "https://example.com/server.tgz"],
        ["npx", "-y", "./server"],
        ["npx", "-y", "../server"],
        ["npx", "-y", "/srv/server"],
        ["npx", "-y", "server@file:/srv"],
        ["npx", "-y", "server@npm:other@1"],
        ["npx", "-y", "server@git+https://example.com"],
        ["npx", "-y", "server; touch /tmp/owned"],
        ["npx", "-y", "$(touch /tmp/owned)"],
        ["npx", "-y", "server\n--registry=http://example.com"],
        ["npx", "-y", ""],
        ["npx", "--registry", "http://example.com", "server"],
        ["npx", "--registry=http://example.com", "server"],
        ["npx", "-c", "touch /tmp/owned"],
        ["npx", "--package", "server", "--", "x;y"],
        ["npx", "--package", "a", "--package", "b", "serve"],
        ["npx"],
        ["uvx", "git+https://example.com/server"],
        ["uvx", "server @ https://example.com/server.whl"],
        ["uvx", "./server"],
        ["uvx", "server.whl/../x"],
        ["uvx", "--index-url", "http://example.com", "server"],
        ["uvx", "--with", "other", "server"],
        ["uvx", "--python", "3.12", "server"],
        ["uvx", "--from", "git+https://example.com/server", "serve"],
        ["uvx", "server==1.2 --hash=x"],
        ["uvx", "server\n-r /etc/passwd"],
        ["uvx", "-r", "/etc/passwd"],
        ["uvx", "server==1 ; python_version > '0'"],
        ["bash", "-c", "true"],
        ["node", "server.js"],
        ["docker", "run", "server"],
        [],
    ],
)
def test_what_is_no_name_on_the_registry_is_refused_before_anything_is_fetched(words: list[str]):
    with pytest.raises(NotRunnable):
        parse(words)


@given(st.text(min_size=1))
def test_whatever_is_taken_for_a_package_is_one_plain_word(text: str):
    for runner in ("npx", "uvx"):
        try:
            launch = parse([runner, text])
        except NotRunnable:
            continue
        assert not launch.requirement.startswith("-")
        assert not set(launch.requirement) & set(" \n\t;|&$`'\"\\:#")
        assert "//" not in launch.requirement
        assert launch.requirement.isascii()


def locked(directory: Path, **packages: dict[str, Any]) -> Launch:
    launch = npx("server")
    write_wish(launch, directory)
    root: dict[str, Any] = {"dependencies": {"server": "latest"}}
    found = {f"node_modules/{name}": package for name, package in packages.items()}
    (directory / "package-lock.json").write_text(json.dumps({"lockfileVersion": 3, "packages": {"": root, **found}}))
    return launch


PINNED = {"version": "1.2.3", "integrity": "sha512-x"}


def test_the_version_that_was_chosen_is_written_into_manifest_and_lock(tmp_path: Path):
    assert pin(locked(tmp_path, server=PINNED), tmp_path) == "1.2.3"
    lock = json.loads((tmp_path / "package-lock.json").read_text())
    manifest = json.loads((tmp_path / "package.json").read_text())
    assert lock["packages"][""]["dependencies"] == manifest["dependencies"] == {"server": "1.2.3"}


@pytest.mark.parametrize(
    "package",
    [
        {"version": "1.0.0", "resolved": "git+ssh://git@example.com/x.git#abc"},
        {"version": "1.0.0", "resolved": "git+ssh://git@example.com/x.git#abc", "integrity": "sha512-x"},
        {"version": "1.0.0", "resolved": "file:../../etc", "integrity": "sha512-x"},
        {"version": "1.0.0", "resolved": "https://elsewhere.example/x.tgz", "integrity": "sha512-x"},
        {"version": "1.0.0", "link": True, "integrity": "sha512-x"},
        {"version": "1.0.0"},
    ],
)
def test_a_lock_with_what_is_not_from_the_registry_is_refused_with_its_name(tmp_path: Path, package: dict[str, Any]):
    launch = locked(tmp_path, server=PINNED, hidden=package)
    with pytest.raises(NotRunnable, match="needs hidden, which is not from the npm registry"):
        pin(launch, tmp_path)


def test_packages_whose_install_scripts_do_not_run_are_named(tmp_path: Path):
    launch = locked(tmp_path, server=PINNED, native={**PINNED, "hasInstallScript": True})
    assert without_install_scripts(launch, tmp_path) == ["native"]


def test_the_version_of_a_python_package_is_that_of_its_hashed_pins(tmp_path: Path):
    (tmp_path / "requirements.txt").write_text(
        "mcp==1 \\\n    --hash=sha256:a\nsome-server==1.2 \\\n    --hash=sha256:b\n"
    )
    assert pin(uvx("Some_Server"), tmp_path) == "1.2"


def node_package(fetched: Path, bins: Any, **files: str) -> None:
    place = fetched / "node_modules" / "@scope" / "server"
    place.mkdir(parents=True)
    (place / "package.json").write_text(json.dumps({"bin": bins}))
    for name, text in files.items():
        (place / name.replace("_", ".")).write_text(text)


@pytest.mark.parametrize(
    ("bins", "command"),
    [
        ("index.js", ""),
        ({"server": "index.js", "b": "b.js"}, ""),
        ({"a": "index.js", "b": "b.js"}, "a"),
        ({"x": "index.js"}, ""),
    ],
)
def test_the_command_of_an_npm_package_is_the_one_that_npx_would_run(tmp_path: Path, bins: Any, command: str):
    node_package(tmp_path, bins, index_js="")
    assert command_of(npx("@scope/server", command=command), tmp_path) == (
        "node",
        "/app/node_modules/@scope/server/index.js",
    )


@pytest.mark.parametrize(
    ("bins", "said"),
    [
        (None, "it is a library"),
        ({"a": "a.js", "b": "b.js"}, "has the commands a, b"),
        ("../../../etc/passwd", "is not in the package"),
        ("missing.js", "is not in the package"),
        ("run.sh", "is not a program for Node.js"),
    ],
)
def test_a_package_without_a_command_of_its_own_is_told_with_those_that_it_has(tmp_path: Path, bins: Any, said: str):
    node_package(tmp_path, bins, run_sh="#!/bin/sh\n")
    with pytest.raises(NotRunnable, match=said):
        command_of(npx("@scope/server"), tmp_path)


def test_a_command_without_a_suffix_is_told_by_its_first_line(tmp_path: Path):
    node_package(tmp_path, "cli", cli="#!/usr/bin/env node\n")
    assert command_of(npx("@scope/server"), tmp_path)[1].endswith("/cli")


def python_package(fetched: Path, scripts: str) -> None:
    place = fetched / "site-packages" / "some_server-1.2.dist-info"
    place.mkdir(parents=True)
    (place / "METADATA").write_text("Metadata-Version: 2.1\nName: some-server\nVersion: 1.2\n")
    (place / "entry_points.txt").write_text(f"[console_scripts]\n{scripts}\n")


def test_the_command_of_a_python_package_is_its_entry_point(tmp_path: Path):
    python_package(tmp_path, "some-server = some_server.cli:main\nother = x:y")
    entry_point = ("python3", "-P", "/app/entry_point.py")
    assert command_of(uvx("some-server"), tmp_path) == (*entry_point, "some-server", "some_server.cli:main")
    assert command_of(uvx("some-server", command="other"), tmp_path) == (*entry_point, "other", "x:y")


def test_a_python_package_without_the_command_is_told_with_those_that_it_has(tmp_path: Path):
    python_package(tmp_path, "serve = x:y\nother = x:z")
    with pytest.raises(NotRunnable, match="has the commands other, serve: choose one with 'uvx --from some-server"):
        command_of(uvx("some-server"), tmp_path)


def test_a_package_cannot_name_a_secret_as_its_command(tmp_path: Path):
    python_package(tmp_path, "${MCP_POSTGRES_PASSWORD} = x:y")
    with pytest.raises(NotRunnable, match=r"has a \$ in its name"):
        command_of(uvx("some-server"), tmp_path)
    node_package(tmp_path, "${KEY}.js")
    (tmp_path / "node_modules" / "@scope" / "server" / "${KEY}.js").touch()
    with pytest.raises(NotRunnable, match=r"has a \$ in its name"):
        command_of(npx("@scope/server"), tmp_path)

"""What the README says must be so."""

from __future__ import annotations

import re
import tomllib

from tests.unit.docs.pages import blocks_in, page, section, words_after

README = page("README.md")


def test_the_readme_names_the_two_commands():
    assert {"up", "test"} <= words_after("make", section(README, "Set up"))


def test_the_programs_call_servers_that_come_without_being_asked_for():
    servers = tomllib.loads(page("deploy/stack/servers.toml"))["servers"]
    default = {name for name, server in servers.items() if server.get("default")}
    typescript = re.findall(r"from '/workspace/servers/(\w+)/", "\n".join(blocks_in("typescript", README)))
    python = re.findall(r"^from servers\.(\w+) import", "\n".join(blocks_in("python", README)), flags=re.MULTILINE)
    assert typescript
    assert python
    assert {*typescript, *python} <= default


def test_the_python_programs_compile():
    programs = blocks_in("python", README)
    assert programs
    for program in programs:
        compile(program, "README.md", "exec")


def test_the_times_are_those_of_the_newest_benchmark():
    speed = page("docs/speed.md")
    medians = {
        contestant: re.findall(rf"^\| {contestant} \|[^|]+\|[^|]+\| ([\d.]+) \|", speed, flags=re.MULTILINE)
        for contestant in ("ours, warm", "docker run --rm")
    }
    ours = re.search(r"takes ([\d.]+) ms in Python and\s+([\d.]+) ms in TypeScript", README)
    docker = re.search(r"`docker run` takes (\d+) ms and (\d+) ms", README)
    assert ours is not None
    assert docker is not None
    assert [f"{float(median):.1f}" for median in medians["ours, warm"]] == [ours[2], ours[1]]
    assert medians["docker run --rm"] == [docker[2], docker[1]]

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from tests.unit.setup.machine import PROJECT


@pytest.fixture(scope="module")
def start() -> ModuleType:
    spec = importlib.util.spec_from_file_location("start", PROJECT / "deploy" / "stack" / "proxy" / "start.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_variables_are_filled_in_and_may_have_a_default(start: ModuleType) -> None:
    assert start.fill_in("a ${ONE} ${TWO:-2} ${THREE:-3}", {"ONE": "1", "THREE": "three"}) == "a 1 2 three"


def test_a_variable_without_value_and_default_is_named(start: ModuleType) -> None:
    with pytest.raises(start.Missing, match="API_KEY is not set"):
        start.fill_in("${API_KEY}", {"API_KEY": ""})


def test_a_server_gets_its_own_variables_and_not_those_of_its_neighbours(start: ModuleType) -> None:
    entry = {"command": "node", "args": ["x.js"], "env": {"PGPASSWORD": "${PASSWORD}"}}
    variables = {"PASSWORD": "p", "OTHER_SECRET": "o", "SSL_CERT_FILE": "/ca"}
    assert start.tied_to_the_proxy(entry, variables)["env"] == {"PGPASSWORD": "p", "SSL_CERT_FILE": "/ca"}


def test_a_server_that_ends_takes_the_proxy_with_it(start: ModuleType, tmp_path: Path) -> None:
    tied = start.tied_to_the_proxy({"command": "sh", "args": ["-c", f"touch {tmp_path}/ran; exit 3"]}, {})
    proxy = "import subprocess, sys; subprocess.run(sys.argv[1:]); print('lives on')"
    ended = subprocess.run(("python3", "-c", proxy, tied["command"], *tied["args"]), capture_output=True, timeout=20)
    assert (tmp_path / "ran").exists()
    assert ended.returncode == -9
    assert ended.stdout == b""


def test_arguments_reach_the_server_as_they_are(start: ModuleType, tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = f'printf "%s|" "$@" >{out}'
    tied = start.tied_to_the_proxy({"command": "sh", "args": ["-c", script, "sh", "a b", "$HOME", "'q"]}, {})
    parent = "import subprocess, sys; subprocess.run(sys.argv[1:])"
    subprocess.run(("python3", "-c", parent, tied["command"], *tied["args"]), timeout=20)
    assert out.read_text() == "a b|$HOME|'q|"


def test_the_filled_in_file_is_for_its_owner_only(start: ModuleType, tmp_path: Path) -> None:
    start.write_privately(tmp_path / "servers.json", "{}")
    assert (tmp_path / "servers.json").stat().st_mode & 0o777 == 0o600

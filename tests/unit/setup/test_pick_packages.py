from __future__ import annotations

import importlib.util
import stat
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.unit.setup.machine import PROJECT


@pytest.fixture(scope="module")
def picking() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pick_packages", PROJECT / "scripts/image/pick_packages.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["pick_packages"] = module
    spec.loader.exec_module(module)
    return module


def installed(picking: ModuleType, *lines: str) -> dict[str, object]:
    packages = [picking.parse_package(line.replace("|tab|", "\t")) for line in lines]
    return {package.name: package for package in packages}


def test_dependencies_are_followed_through_versions_and_alternatives(picking: ModuleType) -> None:
    machine = installed(
        picking,
        "python3|tab||tab|, python3.11 (>= 3.11.2-1~), libpython3-stdlib:any (= 3.11)",
        "python3.11|tab||tab|libc6 (>= 2.36), awk | mime-types",
        "libpython3-stdlib|tab||tab|, ",
        "mime-types|tab||tab|, ",
        "libc6|tab||tab|, ",
        "unrelated|tab||tab|, ",
    )
    picked = picking.with_dependencies(["python3"], machine)
    assert picked == {"python3", "python3.11", "libpython3-stdlib", "libc6", "mime-types"}


def test_a_package_manager_is_not_picked_even_when_something_depends_on_it(picking: ModuleType) -> None:
    machine = installed(picking, "tzdata|tab||tab|debconf, dpkg", "debconf|tab||tab|perl-base", "dpkg|tab||tab|, ")
    assert picking.with_dependencies(["tzdata"], machine) == {"tzdata"}


def test_a_package_can_be_left_out_with_what_only_it_depends_on(picking: ModuleType) -> None:
    machine = installed(
        picking, "postgres|tab||tab|libc6, llvm", "llvm|tab||tab|libedit", "libedit|tab||tab|, ", "libc6|tab||tab|, "
    )
    assert picking.with_dependencies(["postgres"], machine, {"llvm"}) == {"postgres", "libc6"}


def test_a_base_without_a_wanted_package_is_refused_by_name(picking: ModuleType) -> None:
    with pytest.raises(SystemExit, match="lacks python3"):
        picking.with_dependencies(["python3"], {})


def test_a_copied_file_loses_its_setuid_bit_and_keeps_its_mode(picking: ModuleType, tmp_path: Path) -> None:
    source = tmp_path / "su"
    source.write_text("#!/bin/sh\n")
    source.chmod(0o4755)
    picking.copy_path(source, tmp_path / "root")
    copy = tmp_path / "root" / source.relative_to("/")
    assert stat.S_IMODE(source.stat().st_mode) == 0o4755
    assert stat.S_IMODE(copy.stat().st_mode) == 0o755

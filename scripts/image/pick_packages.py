"""Copies the files of a few Debian packages, with the packages they depend on, into an empty root.

Runs in a build stage on a Debian base. An image made from the result has no package manager, no perl and no
setuid file, because nothing of them was ever copied.
"""

import argparse
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

NEVER = frozenset({"apt", "bash", "debconf", "debianutils", "dpkg", "mawk", "mount", "passwd", "perl-base"})
UNNEEDED = re.compile(r"/usr/share/(doc|doc-base|man|info|locale|lintian|bug|menu|bash-completion)(/|$)")
MERGED_DIRECTORIES = ("bin", "sbin", "lib", "lib64")
FIELDS = "${Package}\t${Provides}\t${Pre-Depends}, ${Depends}\n"


@dataclass(frozen=True, slots=True)
class Package:
    name: str
    provides: frozenset[str]
    depends: frozenset[str]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--into", type=Path, required=True)
    parser.add_argument("--without", default="", help="packages to leave out although others depend on them: a,b")
    parser.add_argument("packages", nargs="+")
    chosen = parser.parse_args()
    make_directories(chosen.into)
    unwanted = NEVER | set(chosen.without.split(","))
    picked = sorted(with_dependencies(chosen.packages, installed_packages(), unwanted))
    for package in picked:
        copy_package(package, chosen.into)
    record(picked, chosen.into)
    run("ldconfig", "-r", str(chosen.into))


def make_directories(root: Path) -> None:
    for name in ("dev", "etc", "proc", "run", "sys", "usr/bin", "var"):
        (root / name).mkdir(parents=True, exist_ok=True)
    temporary = root / "tmp"
    temporary.mkdir(exist_ok=True)
    temporary.chmod(0o1777)
    for name in MERGED_DIRECTORIES:
        if os.path.islink(f"/{name}"):
            (root / "usr" / name).mkdir(exist_ok=True)
            (root / name).symlink_to(f"usr/{name}")


def installed_packages() -> dict[str, Package]:
    lines = dpkg_query("-W", "-f", FIELDS).splitlines()
    packages = [parse_package(line) for line in lines]
    by_name = {name: package for package in packages for name in package.provides}
    return by_name | {package.name: package for package in packages}


def parse_package(line: str) -> Package:
    name, provides, depends = line.split("\t")
    return Package(name, frozenset(relation_names(provides)), frozenset(relation_names(depends)))


def relation_names(relations: str) -> Iterator[str]:
    for relation in re.split(r"[,|]", relations):
        name = re.sub(r"\(.*?\)|:\w+", "", relation).strip()
        if name:
            yield name


def with_dependencies(roots: Iterable[str], installed: Mapping[str, Package], unwanted: Set[str] = NEVER) -> set[str]:
    picked: set[str] = set()
    waiting = list(roots)
    while waiting:
        package = installed.get(waiting.pop())
        if package and package.name not in picked | unwanted:
            picked.add(package.name)
            waiting.extend(package.depends)
    missing = [root for root in roots if root not in installed]
    if missing:
        raise SystemExit(f"The base image lacks {', '.join(missing)}.")
    return picked


def copy_package(package: str, root: Path) -> None:
    for line in dpkg_query("-L", package).splitlines():
        if line.startswith("/") and line != "/." and not UNNEEDED.match(line):
            copy_path(without_merged_directories(Path(line)), root)


def without_merged_directories(path: Path) -> Path:
    """Packages still name /bin/sh and /lib/…, although those directories have become links into /usr."""
    return path.parent.resolve() / path.name


def copy_path(source: Path, root: Path) -> None:
    target = root / source.relative_to("/")
    if source.is_dir() and not source.is_symlink():
        target.mkdir(parents=True, exist_ok=True)
    elif not os.path.lexists(target) and os.path.lexists(source):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target, follow_symlinks=False)
        drop_privilege_bits(target)


def drop_privilege_bits(path: Path) -> None:
    mode = path.lstat().st_mode
    if stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID):
        path.chmod(mode & 0o777)


def record(packages: list[str], root: Path) -> None:
    """Vulnerability scanners read the installed packages from this file; nothing else does."""
    status = root / "var/lib/dpkg/status"
    status.parent.mkdir(parents=True, exist_ok=True)
    status.write_text(dpkg_query("-s", *packages))


def dpkg_query(*arguments: str) -> str:
    return run("dpkg-query", *arguments)


def run(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout  # noqa: S603  # our own commands


if __name__ == "__main__":
    main()

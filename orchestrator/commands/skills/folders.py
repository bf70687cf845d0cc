"""Folders of skills on this machine: for git, which `import` reads again, and for agents."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.files import require_writable_directories
from orchestrator.commands.own_files import in_words
from orchestrator.commands.skills.answers import asked, content_of, usages_of, version_of
from orchestrator.commands.terminal import (
    EXIT_BAD_DATA,
    EXIT_CANNOT_WRITE,
    EXIT_NOT_THERE,
    Json,
    ask_daemon,
    directory_named,
    err,
    fail,
    not_empty,
    out,
    plain,
)
from orchestrator.domain.errors import InvalidRequest
from orchestrator.domain.execution import Language
from orchestrator.domain.skill_folders import (
    DESCRIPTION_FILE,
    EXECUTOR,
    SKILL_FILE,
    ImportedSkill,
    agent_skill,
    exported,
    imported,
)
from orchestrator.domain.skills import MAX_CODE_BYTES, SkillState

# Enough for every skill: the schemas and examples of one have less, and are indented here.
MAX_DESCRIPTION_FILE_BYTES = 4 * 1024 * 1024
CODE_FILES = tuple(f"code{language.suffix}" for language in Language)


class FolderInvalid(Exception):
    """The message says what a folder of skills must be like."""


@dataclass(frozen=True, slots=True)
class FolderProblem:
    """Why a folder is not imported, and the exit code for that."""

    folder: Path
    message: str
    exit_code: int

    @classmethod
    def of(cls, folder: Path, error: FolderInvalid | OSError) -> FolderProblem:
        if isinstance(error, FolderInvalid):
            return cls(folder, str(error), EXIT_BAD_DATA)
        return cls(folder, f"{error.filename or folder} cannot be read: {in_words(error)}.", EXIT_NOT_THERE)


def export(
    directory: Annotated[Path, typer.Argument(metavar="DIR", parser=directory_named, help="Where the folders go.")],
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME", callback=not_empty, help="Only these. Default: every approved skill that you may use."
        ),
    ] = None,
    claude: Annotated[
        bool, typer.Option("--claude", help="As Agent Skills, which Claude and other agents read; not for import.")
    ] = False,
) -> None:
    """Write skills as folders: for git and `import`, or with --claude for agents that use them through MCP."""
    if names:
        found = [asked(name) for name in dict.fromkeys(names)]
    else:
        approved = [each for each in ask_daemon("/skills")["skills"] if each["state"] == SkillState.APPROVED]
        found = [asked(each["name"], each["version"]) for each in approved]
    if not found:
        err.print("There are no approved skills that you may use.")
        return
    require_writable_directories(directory)
    try:
        for each in found:
            folder, files = _files(each, claude=claude)
            written = write_folder(directory / folder, files, _own_files(each["name"], claude=claude))
            said = plain(str(directory / folder)).append_text(plain(f"  {each['state']}, version {each['version']}"))
            out.print(said if written else said.append(", unchanged"))
    except FolderInvalid as error:
        fail(str(error), EXIT_CANNOT_WRITE)
    except OSError as error:
        fail(f"{error.filename or directory} cannot be written: {in_words(error)}.", EXIT_CANNOT_WRITE)


def _files(found: Json, *, claude: bool) -> tuple[str, dict[str, str]]:
    """Return the name of a skill's folder, and what is in it, by paths within it."""
    if claude:
        version = version_of(found)
        skill = agent_skill(version, usages_of(version))
        folder, files = skill.name, skill.files
    else:
        content = content_of(found)
        folder, files = content.name, exported(content)
    return folder, {path.removeprefix(f"{folder}/"): text for path, text in files.items()}


def _own_files(name: str, *, claude: bool) -> tuple[str, ...]:
    """Return every file that an export of a skill may have written, the first being one that it always has."""
    if claude:
        return (SKILL_FILE, *(f"scripts/{name}{language.suffix}" for language in Language))
    return (DESCRIPTION_FILE, *CODE_FILES)


def write_folder(folder: Path, files: Mapping[str, str], own: Sequence[str]) -> bool:
    """Write a folder beside the one that is there, let it take its place, and return whether anything has changed.

    What else is in the folder, such as a README, is kept; what only an earlier version of the skill had is not. No link
    is followed: a repository may have links to anywhere.
    """
    if folder.is_symlink() or folder.exists():
        _require_ours(folder, own[0])
        if _is_so(folder, files, own):
            return False
    with _beside(folder) as new:
        if folder.exists():
            ours = {folder / path for path in (*own, *files)}
            shutil.copytree(folder, new, symlinks=True, ignore=_ignoring(ours), dirs_exist_ok=True)
        for path, text in files.items():
            target = new / path
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(text.encode())  # line ends are part of the version
        _take_place(new, folder)
    return True


def _ignoring(ours: Set[Path]) -> Callable[[str, list[str]], set[str]]:
    """Return an `ignore` for shutil: of our files, and of links where our files and directories are to be."""
    ours_and_above = ours | {file.parent for file in ours}

    def ignored(directory: str, names: list[str]) -> set[str]:
        places = [Path(directory, name) for name in names]
        files = {place.name for place in places if place in ours and not place.is_dir()}
        return files | {place.name for place in places if place in ours_and_above and place.is_symlink()}

    return ignored


def _require_ours(folder: Path, always: str) -> None:
    """Refuse to replace what no export has written."""
    is_ours = not folder.is_symlink() and _is_file_within(folder, always)
    if is_ours and always == SKILL_FILE:
        is_ours = f'"{EXECUTOR}"' in (folder / always).read_text(encoding="utf-8", errors="replace")
    if not is_ours:
        raise FolderInvalid(f"{folder} exists and is not an exported skill. Move it away, or export elsewhere.")


def _is_so(folder: Path, files: Mapping[str, str], own: Sequence[str]) -> bool:
    obsolete = any(os.path.lexists(folder / path) for path in own if path not in files)
    return not obsolete and all(
        _is_file_within(folder, path) and (folder / path).read_bytes() == text.encode() for path, text in files.items()
    )


def _is_file_within(folder: Path, path: str) -> bool:
    """Tell whether a file is there that no link leads to."""
    file = folder / path
    return file.is_file() and not file.is_symlink() and (file.parent == folder or not file.parent.is_symlink())


@contextmanager
def _beside(folder: Path) -> Iterator[Path]:
    new = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}.part")
    new.mkdir()
    try:
        yield new
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _take_place(new: Path, folder: Path) -> None:
    """Give a folder its name; the one that had it is there until then, and again if that fails."""
    if not folder.exists():
        os.rename(new, folder)
        return
    old = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}.old")
    os.rename(folder, old)
    try:
        os.rename(new, folder)
    except BaseException:
        os.rename(old, folder)
        raise
    shutil.rmtree(old)


def read_folders(directories: Sequence[Path]) -> tuple[list[ImportedSkill], list[FolderProblem]]:
    """Read every skill in the directories, before any is sent; return them, and why others are left out."""
    found: dict[str, tuple[Path, ImportedSkill]] = {}
    problems: list[FolderProblem] = []
    left_out: set[str] = set()  # the names of skills
    for directory in directories:
        try:
            folders = _folders_in(directory)
        except (FolderInvalid, OSError) as error:
            problems.append(FolderProblem.of(directory, error))
            continue
        for folder in folders:
            try:
                skill = _read(folder)
            except (FolderInvalid, OSError) as error:
                problems.append(FolderProblem.of(folder, error))
                left_out.add(folder.absolute().name)
                continue
            name = skill.content.name
            other, before = found.setdefault(name, (folder, skill))
            if before.version != skill.version:
                said = f"{other} and {folder} hold different versions of {name}. Import one of them."
                problems.append(FolderProblem(folder, said, EXIT_BAD_DATA))
                left_out.add(name)
    # What uses them would be proven with whatever is there under their names.
    while users := [name for name in found if name not in left_out and left_out & set(found[name][1].content.uses)]:
        for name in users:
            folder, skill = found[name]
            missing = ", ".join(sorted(left_out & set(skill.content.uses)))
            said = f"{folder} was left out: it uses {missing}, which cannot be imported."
            problems.append(FolderProblem(folder, said, EXIT_BAD_DATA))
        left_out.update(users)
    return [skill for name, (_, skill) in found.items() if name not in left_out], problems


def _folders_in(directory: Path) -> list[Path]:
    if (directory / DESCRIPTION_FILE).is_file():
        return [directory]
    folders = sorted(each for each in directory.iterdir() if not each.name.startswith("."))
    skills = [each for each in folders if (each / DESCRIPTION_FILE).is_file()]
    if not skills:
        hint = " These are for agents; export without --claude." if _has_agent_skills((directory, *folders)) else ""
        raise FolderInvalid(
            f"{directory} must be a skill's folder, with {DESCRIPTION_FILE}, or contain such folders.{hint}"
        )
    return skills


def _has_agent_skills(folders: Sequence[Path]) -> bool:
    return any((each / SKILL_FILE).is_file() for each in folders)


def _read(folder: Path) -> ImportedSkill:
    _require_no_link(folder)
    name = folder.resolve().name
    sizes = {DESCRIPTION_FILE: MAX_DESCRIPTION_FILE_BYTES, **dict.fromkeys(CODE_FILES, MAX_CODE_BYTES)}
    files = {}
    for file, max_bytes in sizes.items():
        _require_no_link(folder / file)
        if (folder / file).is_file():
            files[f"{name}/{file}"] = _text_in(folder / file, max_bytes)
    try:
        return imported(files)
    except InvalidRequest as error:
        raise FolderInvalid(f"{folder} cannot be imported. {error.message}") from error


def _require_no_link(place: Path) -> None:
    # Whoever wrote the folder would otherwise have files sent that only the user can read.
    if place.is_symlink():
        raise FolderInvalid(f"{place} is a link, which import does not follow. Replace it with what it points to.")


def _text_in(file: Path, max_bytes: int) -> str:
    with file.open("rb") as opened:
        content = opened.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise FolderInvalid(f"{file} must have at most {max_bytes} bytes.")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise FolderInvalid(f"{file} must be UTF-8: {error}.") from error

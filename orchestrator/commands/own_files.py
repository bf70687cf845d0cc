"""Files of this machine on their way to the daemon, and files of strangers on their way here.

A name that comes from the daemon was chosen by a program. Nothing is written outside the directory that the user named,
whatever the name is and whatever links lie about in that directory.
"""

from __future__ import annotations

import os
import secrets
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from orchestrator.commands.client import ApiClient, CallFailed, Refused
from orchestrator.commands.terminal import Json, err, plain
from orchestrator.domain.file_words import IN_WORDS, count_in_words, size_in_words
from orchestrator.domain.files import Why, is_name

# What goes along with the program; larger files are sent in advance, once.
INLINE_BYTES = 64 * 1024
MAX_INLINE_BYTES = 1024 * 1024
PIECE_BYTES = 256 * 1024
MAX_TOLD = 10
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# The request itself was wrong: sent again as it is, it would be refused again.
REFUSED_FOR_GOOD = frozenset({"file_too_large", "invalid_request", "quota_exceeded", "too_many_uploads"})


class NotAFile(ValueError):
    """The message says what is wrong with a file of the user's."""


class NotAnInput(ValueError):
    """The message says what is wrong with what the user wrote after --in."""


class TooMuch(ValueError):
    """The message says which limit of the daemon's the user's files exceed."""


@dataclass(frozen=True, slots=True)
class NotSaved:
    """A file of a stranger's that could not be saved, and why."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class OwnFile:
    """A file of this machine, under the name that the program finds it by."""

    name: str
    path: Path
    size: int


def own_files(given: Sequence[str]) -> list[OwnFile]:
    """Find what the user means by PATH or NAME=PATH; a directory stands for all files in it."""
    found: dict[str, OwnFile] = {}
    for text in given:
        name, path = _named(text)
        for each in _files_at(name, path):
            if not is_name(each.name):
                raise NotAnInput(f"{each.name!r} cannot be a file's name in the sandbox. Choose one: --in NAME={path}.")
            if each.name in found:
                raise NotAnInput(f"Two files would be called {each.name}. Choose another name: --in NAME={each.path}.")
            found[each.name] = each
    return list(found.values())


@asynccontextmanager
async def given_files(client: ApiClient, files: Sequence[OwnFile]) -> AsyncIterator[Json]:
    """Yield the files as a request has them; large ones are sent first, unless the daemon has them already.

    What was sent for a request that is then refused for good is deleted again, because it counts against the quota.
    """
    sent: list[str] = []
    try:
        yield await _entries(client, files, sent)
    except Refused as refusal:
        if refusal.code in REFUSED_FOR_GOOD:
            for digest in sent:
                with suppress(CallFailed):
                    await client.delete_upload(digest)
        raise


async def save_all(client: ApiClient, files: Sequence[Mapping[str, Any]], directory: Path) -> list[NotSaved]:
    """Save files in a directory, whatever becomes of the others, and return those that could not be saved."""
    failures = []
    for file in files:
        name = str(file["name"])
        try:
            await save(client, file, directory, name)
        except (CallFailed, OSError) as error:
            failures.append(NotSaved(name, in_words(error)))
    return failures


def in_words(error: CallFailed | OSError) -> str:
    """Say why a file could not be saved."""
    return os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)


def require_writable(directory: Path) -> None:
    """Make a directory if it is missing, and raise OSError if no file can be made in it."""
    with _opened(directory, ()) as folder:
        temporary = f".{secrets.token_hex(8)}.part"
        os.close(os.open(temporary, _NEW_FILE, 0o600, dir_fd=folder))
        os.unlink(temporary, dir_fd=folder)


async def save(client: ApiClient, file: Mapping[str, Any], directory: Path, name: str) -> None:
    """Save one file under a name below the directory; it is there whole, or not at all."""
    if not is_name(name):
        raise CallFailed(f"The daemon sent a file with the name {name[:100]!r}, which is not saved.")
    *folders, last = name.split("/")
    with _opened(directory, folders) as folder, _written(folder, last) as target:
        await fetch(client, file, target)


async def fetch(client: ApiClient, file: Mapping[str, Any], descriptor: int) -> None:
    """Write the content of a file to an open one, and check that it is what its hash says."""
    digest = sha256()
    with _progress(str(file["name"]), int(file["bytes"])) as advance:

        def take(piece: bytes) -> None:
            digest.update(piece)
            advance(len(piece))
            while piece:
                piece = piece[os.write(descriptor, piece) :]

        await client.download(str(file["url"]), take)
    if digest.hexdigest() != file["sha256"]:
        raise CallFailed(f"{file['name']} did not arrive as it was kept. Try again.")


def tell_left_out(left_out: Sequence[Json], count: int, where: str = "") -> None:
    """Say which files were not kept, and why."""
    for each in left_out[:MAX_TOLD]:
        size = f", {size_in_words(each['bytes'])}" if each["bytes"] else ""
        err.print(plain(f"code-executor: not kept{where}: {each['name']}{size}: {_why(each['why'])}"))
    if count > len(left_out[:MAX_TOLD]):
        err.print(plain(f"code-executor: not kept{where}: {count - len(left_out[:MAX_TOLD])} more"))


def _why(code: str) -> str:
    with suppress(ValueError):  # a newer daemon may have more reasons
        return IN_WORDS[Why(code)]
    return code


def _named(text: str) -> tuple[str, Path]:
    """Return the name that the program finds a file or directory by, and where it is."""
    name, equals, path = text.partition("=")
    if not equals or not name or Path(text).exists():
        name, path = "", text
    if not path:
        raise NotAnInput(f"--in {text!r} has no path. Write --in PATH or --in NAME=PATH.")
    if not name:
        last = Path(path).name
        name = last if last not in ("", "..") else Path(path).resolve().name
    if not is_name(name):
        raise NotAnInput(f"{name!r} cannot be a file's name in the sandbox. Choose one: --in NAME={path}.")
    return name, Path(path)


def _files_at(name: str, path: Path) -> Iterator[OwnFile]:
    try:
        if path.is_dir():
            inside, links = _files_below(path)
            if links:
                err.print(plain(f"code-executor: left out {count_in_words(links, 'link')} in {path}"))
            if not inside:
                raise NotAFile(f"{path} has no files.")
            for each in inside:
                yield OwnFile(f"{name}/{each.relative_to(path).as_posix()}", each, each.stat().st_size)
        elif path.is_file():
            yield OwnFile(name, path, path.stat().st_size)
        else:
            raise NotAFile(f"{path} is not a file{'' if path.exists() else ': there is nothing of that name'}.")
    except OSError as error:
        raise NotAFile(f"{error.filename or path} cannot be read: {error.strerror}.") from error


def _files_below(directory: Path) -> tuple[list[Path], int]:
    """Return the files in a directory and its folders, and how many links there are, which are not followed."""

    def give_up(error: OSError) -> None:
        raise error

    files, links = [], 0
    for folder, folders, others in os.walk(directory, onerror=give_up):
        for each in (Path(folder, name) for name in (*folders, *others)):
            if each.is_symlink():
                links += 1
            elif each.is_file():
                files.append(each)
    return sorted(files), links


async def _entries(client: ApiClient, files: Sequence[OwnFile], sent: list[str]) -> Json:
    along, in_advance = _divided(files)
    if in_advance:
        await _require_within_limits(client, files)
    try:
        entries: Json = {each.name: {"base64": b64encode(each.path.read_bytes()).decode()} for each in along}
        for each in in_advance:
            entries[each.name] = {"sha256": await _send(client, each, sent)}
    except OSError as error:
        raise NotAFile(f"{error.filename or 'A file'} cannot be read: {error.strerror}.") from error
    return entries


def _divided(files: Sequence[OwnFile]) -> tuple[list[OwnFile], list[OwnFile]]:
    """Return the files that go along with the program, and those that are sent in advance."""
    along: list[OwnFile] = []
    in_advance: list[OwnFile] = []
    inline = 0
    for file in sorted(files, key=lambda each: each.size):
        if file.size <= INLINE_BYTES and inline + file.size <= MAX_INLINE_BYTES:
            inline += file.size
            along.append(file)
        else:
            in_advance.append(file)
    return along, in_advance


async def _require_within_limits(client: ApiClient, files: Sequence[OwnFile]) -> None:
    """Raise TooMuch before anything is sent, if the daemon tells its limits to this key."""
    try:
        settings = (await client.get("/config"))["settings"]
        most, most_bytes, largest = (
            int(settings[name]["value"]) for name in ("max_files", "max_files_bytes", "max_upload_bytes")
        )
    except (Refused, KeyError, TypeError, ValueError):
        return
    if len(files) > most:
        raise TooMuch(f"--in gives {count_in_words(len(files))}; the daemon takes at most {most}.")
    for file in files:
        if file.size > largest:
            raise TooMuch(f"{file.path} has {file.size} bytes; the daemon takes files of at most {largest} bytes.")
    if (total := sum(file.size for file in files)) > most_bytes:
        limit = f"{most_bytes} bytes ({size_in_words(most_bytes)}) together"
        raise TooMuch(f"--in gives files of {total} bytes; the daemon takes at most {limit}.")


async def _send(client: ApiClient, file: OwnFile, sent: list[str]) -> str:
    """Return the hash of a file that the daemon has by now; if it was sent, the hash is noted."""
    digest = sha256()
    with file.path.open("rb") as content:
        while piece := content.read(PIECE_BYTES):
            digest.update(piece)
    name = digest.hexdigest()
    if await client.has_upload(name):
        return name
    with _progress(file.name, file.size) as advance:

        async def pieces() -> AsyncIterator[bytes]:
            with file.path.open("rb") as content:
                while piece := content.read(PIECE_BYTES):
                    advance(len(piece))
                    yield piece

        await client.upload(name, file.size, pieces())
    sent.append(name)
    return name


@contextmanager
def _progress(name: str, size: int) -> Iterator[Any]:
    """Show on a terminal how far a file is; its name is shown as text, whoever chose it."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as shown:
        task = shown.add_task(plain(name).plain, total=size)
        yield lambda count: shown.advance(task, count)


@contextmanager
def _opened(directory: Path, folders: Sequence[str]) -> Iterator[int]:
    """Open a folder below the directory; what is missing is made, and a link below the directory is not followed."""
    directory.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            with suppress(FileExistsError):
                os.mkdir(folder, dir_fd=descriptor)
            below = os.open(folder, _DIRECTORY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _written(folder: int, name: str) -> Iterator[int]:
    """Open a file that takes its name, and the place of what has it, once it is whole."""
    temporary = f".{secrets.token_hex(8)}.part"
    descriptor = os.open(temporary, _NEW_FILE, 0o666, dir_fd=folder)
    try:
        try:
            yield descriptor
        finally:
            os.close(descriptor)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise

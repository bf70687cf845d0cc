"""`code-executor files` and `workspaces`, and `run` with files, on a daemon in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any
from urllib.parse import unquote

import pytest
from click.testing import Result
from typer.testing import CliRunner

from orchestrator.commands.cli import app
from tests.support.fake_api import QuietHandler, serving

BELL = "a\x07b"


class Daemon:
    """Answers from tables, and keeps what it was sent."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.contents: dict[str, bytes] = {}
        self.uploads: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.orders: list[dict[str, Any]] = []
        self.refusal: dict[str, Any] | None = None
        self.result: dict[str, Any] = {
            "executionId": "e1",
            "outcome": "completed",
            "exitCode": 0,
            "truncated": False,
            "mistakes": [],
            "images": [],
            "files": [],
            "filesLeftOut": [],
            "filesLeftOutCount": 0,
            "workspace": None,
        }

    def has(self, name: str, content: bytes, below: str = "/executions/e1/files") -> dict[str, Any]:
        self.contents[f"{below}/{name}"] = content
        digest = sha256(content).hexdigest()
        url = f"{below}/{name.replace(' ', '%20')}"
        return {"name": name, "bytes": len(content), "mediaType": "text/plain", "sha256": digest, "url": url}

    def command(self, *arguments: str, **options: Any) -> Result:
        return CliRunner().invoke(app, list(arguments), **options)


class Handler(QuietHandler):
    fake: Daemon

    def do_GET(self) -> None:
        self.fake.asked.append(f"{self.command} {self.path}")
        path = unquote(self.path)
        if path in self.fake.contents:
            self._send(200, self.fake.contents[path], "application/octet-stream")
        elif path in self.fake.answers or path.removeprefix("/files/") in self.fake.uploads:
            self._send(200, json.dumps(self.fake.answers.get(path, {})).encode())
        else:
            problem = {"detail": "There is none.", "hint": "Look.", "code": "file_not_found"}
            self._send(404, json.dumps(problem).encode())

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_DELETE(self) -> None:
        # Before the answer: whoever has it may look.
        if self.fake.uploads.pop(self.path.removeprefix("/files/"), None) is None:
            self.do_GET()
        else:
            self.fake.asked.append(f"{self.command} {self.path}")
            self.answer(200, {})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.fake.asked.append(f"POST {self.path}")
        if self.path.startswith("/files"):
            self.fake.uploads[self.path.partition("sha256=")[2]] = body
            self._send(201, b"{}")
            return
        self.fake.orders.append(json.loads(body))
        if self.fake.refusal is not None:
            self._send(422, json.dumps(self.fake.refusal).encode())
        elif self.path == "/execute":
            self._send(200, f"event: result\ndata: {json.dumps(self.fake.result)}\n\n".encode(), "text/event-stream")
        else:
            self._send(200, json.dumps(self.fake.answers[self.path]).encode())

    def _send(self, status: int, data: bytes, content_type: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    fake = Daemon()
    handler = type("Told", (Handler,), {"fake": fake})
    with serving(handler, monkeypatch):
        yield fake


def run(daemon: Daemon, *arguments: str) -> Result:
    return daemon.command("run", "-", *arguments, input="1")


# --- run ---


def test_a_program_gets_files_and_a_workspace(daemon, tmp_path):
    (tmp_path / "a.csv").write_bytes(b"1")
    (tmp_path / "large.bin").write_bytes(b"x" * 500_000)
    large = sha256(b"x" * 500_000).hexdigest()
    asked = ("--in", str(tmp_path / "a.csv"), "--in", f"b/c.bin={tmp_path / 'large.bin'}")
    for _ in range(2):
        ended = run(daemon, *asked, "--workspace", "notes", "--keep", "always", "--no-wait")
        assert (ended.exit_code, ended.stderr) == (0, "")
    assert daemon.orders[1]["files"] == {"a.csv": {"base64": "MQ=="}, "b/c.bin": {"sha256": large}}
    assert {name: daemon.orders[1][name] for name in ("workspace", "keep", "wait")} == {
        "workspace": "notes",
        "keep": "always",
        "wait": False,
    }
    assert daemon.uploads[large] == b"x" * 500_000
    assert len([path for path in daemon.asked if path.startswith("POST /files")]) == 1  # the second time it was there


def test_a_program_without_files_is_asked_for_as_before(daemon):
    assert run(daemon).exit_code == 0
    assert daemon.orders == [{"code": "1", "language": "typescript", "check": "strict"}]


def test_what_a_program_left_is_saved(daemon, tmp_path):
    daemon.result["files"] = [daemon.has("d/a b.csv", b"1,2"), daemon.has("c.csv", b"3")]
    ended = run(daemon, "--out", str(tmp_path / "out"))
    assert (ended.exit_code, ended.stderr) == (0, f"code-executor: 2 files (4 bytes) in {tmp_path / 'out'}\n")
    assert (tmp_path / "out" / "d" / "a b.csv").read_bytes() == b"1,2"


def test_files_that_nobody_asked_for_are_counted(daemon):
    daemon.result["files"] = [daemon.has("a.csv", b"1")]
    assert run(daemon).stderr == "code-executor: 1 file; --out DIRECTORY saves what it left\n"


def test_what_was_not_kept_is_told(daemon):
    left_out = [{"name": "big", "bytes": 2048, "why": "too_large"}]
    daemon.result |= {"filesLeftOut": left_out, "filesLeftOutCount": 4, "outcome": "failed", "exitCode": 3}
    daemon.result["workspace"] = {"name": "notes", "kept": False, "whyNot": "It failed.", "leftOut": []}
    ended = run(daemon, "--workspace", "notes")
    assert ended.exit_code == 3
    assert ended.stderr.splitlines() == [
        "code-executor: not kept: big, 2 KiB: too large",
        "code-executor: not kept: 3 more",
        "code-executor: notes was not changed: It failed.",
    ]


@pytest.mark.parametrize(
    ("arguments", "exit_code", "complaint"),
    [
        (("--in", "missing.csv"), 66, "missing.csv is not a file: there is nothing of that name."),
        (("--in", "data="), 64, "--in 'data=' has no path. Write --in PATH or --in NAME=PATH."),
        (("--in", ""), 64, "--in '' has no path."),
        (("--keep", "always"), 64, "Name it with --workspace."),
        (("--no-wait",), 64, "Name it with --workspace."),
    ],
)
def test_what_cannot_be_meant_is_told_before_anything_runs(daemon, arguments, exit_code, complaint):
    ended = run(daemon, *arguments)
    assert ended.exit_code == exit_code
    assert complaint in ended.stderr
    assert not daemon.orders


def test_a_file_that_cannot_be_saved_is_named_and_the_others_are_saved(daemon, tmp_path):
    daemon.result["files"] = [daemon.has(name, b"1") for name in ("a.csv", "b.csv", "c.csv")]
    (tmp_path / "b.csv").mkdir()
    ended = run(daemon, "--out", str(tmp_path), "--json")
    assert ended.exit_code == 73
    assert ended.stderr.splitlines() == [
        f"code-executor: b.csv was not saved in {tmp_path}: Is a directory",
        f"code-executor: 2 files (2 bytes) in {tmp_path}",
        "code-executor: the daemon still keeps what was not saved; 'code-executor files e1 --out DIRECTORY' saves it",
    ]
    assert (tmp_path / "c.csv").read_bytes() == b"1"
    assert json.loads(ended.stdout)["outcome"] == "completed"


def two_large_files(tmp_path) -> tuple[str, ...]:
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(name.encode() * 50_000)
    return ("--in", str(tmp_path / "one"), "--in", str(tmp_path / "two"))


@pytest.mark.parametrize(
    ("limits", "complaint"),
    [
        ((1, 400_000, 200_000), "--in gives 2 files; the daemon takes at most 1."),
        ((2, 200_000, 200_000), "--in gives files of 300000 bytes; the daemon takes at most 200000 bytes"),
        ((2, 400_000, 100_000), "one has 150000 bytes; the daemon takes files of at most 100000 bytes."),
    ],
)
def test_what_is_over_the_daemons_limits_is_not_even_sent(daemon, tmp_path, limits, complaint):
    names = ("max_files", "max_files_bytes", "max_upload_bytes")
    held = {name: {"value": value, "given": False} for name, value in zip(names, limits, strict=True)}
    daemon.answers["/config"] = {"settings": held}
    ended = run(daemon, *two_large_files(tmp_path))
    assert ended.exit_code == 65
    assert complaint in ended.stderr
    assert daemon.asked == ["GET /config"]


def test_what_was_sent_for_a_program_that_is_refused_is_deleted_again(daemon, tmp_path):
    had = sha256(b"one" * 50_000).hexdigest()
    daemon.uploads[had] = b"one" * 50_000
    detail = "`files` must have at most 200000 bytes together; they have 300000."
    daemon.refusal = {"detail": detail, "hint": "Send less.", "code": "file_too_large"}
    ended = run(daemon, *two_large_files(tmp_path))
    assert ended.exit_code == 65
    assert "The files of --in must have at most 200000 bytes together" in ended.stderr
    assert list(daemon.uploads) == [had]


def test_what_was_sent_for_a_program_that_may_be_sent_again_stays(daemon, tmp_path):
    daemon.refusal = {"detail": "The queue is full.", "hint": "Try again later.", "code": "queue_full"}
    assert run(daemon, *two_large_files(tmp_path)).exit_code == 75
    assert len(daemon.uploads) == 2


# --- files ---


def test_files_are_listed_and_hostile_names_are_only_shown(daemon):
    daemon.answers["/executions/e1/files"] = {"files": [daemon.has("a.csv", b"123"), daemon.has(BELL, b"")]}
    ended = daemon.command("files", "e1")
    assert ended.exit_code == 0
    assert "a.csv" in ended.stdout
    assert "3 bytes" in ended.stdout
    assert "\x07" not in ended.stdout


def test_without_an_id_they_are_those_of_ones_own_newest_program(daemon):
    daemon.answers["/whoami"] = {"caller": "alice"}
    daemon.answers["/executions?limit=1&kind=program&caller=alice"] = {"executions": [{"executionId": "e1"}]}
    daemon.answers["/executions/e1/files"] = {"files": []}
    assert daemon.command("files").stderr == "It left no files, or they are no longer kept.\n"


def test_a_file_is_saved_under_its_own_name_or_another(daemon, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    daemon.answers["/executions/e1/files"] = {"files": [daemon.has("d/a b.csv", b"123")]}
    assert daemon.command("files", "e1", "--get", "d/a b.csv").stderr == "code-executor: 3 bytes in a b.csv\n"
    assert (tmp_path / "a b.csv").read_bytes() == b"123"
    assert daemon.command("files", "e1", "--get", "d/a b.csv", "-o", "x/other.csv").exit_code == 0
    assert (tmp_path / "x" / "other.csv").read_bytes() == b"123"
    assert daemon.command("files", "e1", "--out", "all").exit_code == 0
    assert (tmp_path / "all" / "d" / "a b.csv").read_bytes() == b"123"


def test_a_file_is_saved_into_the_directory_that_was_named(daemon, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("precious")
    daemon.answers["/executions/e1/files"] = {"files": [daemon.has("a.csv", b"123"), daemon.has("d/b.csv", b"4")]}
    ended = daemon.command("files", "e1", "--get", "a.csv", "--out", "all")
    assert (ended.exit_code, ended.stderr) == (0, "code-executor: 3 bytes in all/a.csv\n")
    assert (tmp_path / "a.csv").read_text() == "precious"
    assert daemon.command("files", "e1", "--get", "d/b.csv", "--out", "all").exit_code == 0
    saved = [path.relative_to(tmp_path / "all").as_posix() for path in (tmp_path / "all").rglob("*") if path.is_file()]
    assert sorted(saved) == ["a.csv", "d/b.csv"]
    ended = daemon.command("files", "e1", "--get", "a.csv", "--out", "all", "-o", "x")
    assert (ended.exit_code, "Use one of them" in ended.stderr) == (64, True)


def test_a_place_where_a_file_cannot_be_written_is_named(daemon, tmp_path):
    daemon.answers["/executions/e1/files"] = {"files": [daemon.has("a.csv", b"123")]}
    (tmp_path / "taken").mkdir()
    ended = daemon.command("files", "e1", "--get", "a.csv", "-o", str(tmp_path / "taken"))
    assert ended.exit_code == 73
    assert ended.stderr == f"code-executor: a.csv cannot be written to {tmp_path / 'taken'}: Is a directory.\n"
    assert daemon.command("files", "e1", "--get", "a.csv", "-o", "").exit_code == 64


def test_a_file_that_is_not_there_is_told(daemon):
    daemon.answers["/executions/e1/files"] = {"files": []}
    ended = daemon.command("files", "e1", "--get", "a.csv")
    assert ended.exit_code == 66
    assert ended.stderr == "code-executor: There is no file 'a.csv'. 'code-executor files e1' lists what there is.\n"
    assert daemon.command("files", "e1", "-o", "x").exit_code == 64
    assert "(file_not_found)" in daemon.command("files", "e2").stderr


def test_uploads_are_listed_and_deleted(daemon):
    sent = {"sha256": "0" * 64, "bytes": 2048, "uploadedAt": "2026-11-16T09:00:00.000+00:00", "url": "/files/0"}
    daemon.answers["/files"] = {"files": [sent], "next": "a b"}
    daemon.answers["/files?before=a b"] = {"files": [{**sent, "sha256": "1" * 64}], "next": None}
    listed = daemon.command("uploads").stdout
    assert "0" * 64 in listed
    assert "1" * 64 in listed
    assert "2 KiB" in listed
    daemon.answers[f"/files/{'0' * 64}"] = {"deleted": 1}
    assert daemon.command("uploads", "--delete", "0" * 64).stderr == f"code-executor: deleted {'0' * 64}\n"
    assert daemon.asked[-1] == f"DELETE /files/{'0' * 64}"
    ended = daemon.command("uploads", "--delete", "../x")
    assert (ended.exit_code, daemon.asked[-1]) == (66, "DELETE /files/..%2Fx")


# --- workspaces ---


def version(execution_id: str, **fields: Any) -> dict[str, Any]:
    made = {"version": execution_id, "caller": "c", "madeAt": "2026-11-16T09:00:00.000+00:00", "digest": "0" * 64}
    return {**made, "fileCount": 2, "bytes": 3000, **fields}


def test_workspaces_are_listed(daemon):
    daemon.answers["/workspaces"] = {"workspaces": [version("e2", name="notes")]}
    listed = daemon.command("workspaces").stdout
    assert "notes" in listed
    assert "2.9 KiB" in listed
    assert "e2" in listed
    assert json.loads(daemon.command("workspaces", "--json").stdout) == daemon.answers["/workspaces"]


def test_one_who_has_none_is_told_how_to_make_one(daemon):
    daemon.answers["/workspaces"] = {"workspaces": []}
    assert "run FILE --workspace NAME" in daemon.command("workspaces").stderr


def test_a_workspace_is_shown_and_read(daemon, tmp_path):
    file = daemon.has("a.txt", b"text", "/workspaces/notes/files")
    shown = {"name": "notes", "versions": [version("e2"), version("e1")], "version": "e2", "files": [file]}
    daemon.answers["/workspaces/notes"] = daemon.answers["/workspaces/notes?version=e1"] = shown
    printed = daemon.command("workspaces", "show", "notes").stdout
    assert [word for word in ("e2", "e1", "a.txt") if word not in printed] == []
    ended = daemon.command("workspaces", "get", "notes", "a.txt", "-o", str(tmp_path / "x"), "--version", "e1")
    assert ended.exit_code == 0
    assert (tmp_path / "x").read_bytes() == b"text"
    ended = daemon.command("workspaces", "get", "notes", "b.txt")
    assert ended.exit_code == 66
    assert ended.stderr == (
        "code-executor: There is no file 'b.txt'. 'code-executor workspaces show notes' lists what there is.\n"
    )


def test_a_workspace_goes_back_to_an_earlier_version(daemon):
    daemon.answers["/workspaces/notes/restore"] = version("e1", name="notes")
    ended = daemon.command("workspaces", "restore", "notes", "e1")
    assert ended.stderr == "code-executor: notes is as execution e1 left it: 2 files, 2.9 KiB\n"
    assert daemon.orders == [{"version": "e1"}]


def test_a_workspace_is_deleted_only_after_a_yes(daemon):
    daemon.answers["/workspaces/notes"] = {"deleted": 3}
    assert daemon.command("workspaces", "delete", "notes", input="n\n").exit_code == 1
    assert daemon.asked == []
    ended = daemon.command("workspaces", "delete", "notes", "--yes")
    assert ended.stderr == "code-executor: deleted notes with 3 versions\n"
    assert daemon.asked == ["DELETE /workspaces/notes"]

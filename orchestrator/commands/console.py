"""The console in a browser: a link that signs one in, once."""

from __future__ import annotations

import html
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.terminal import AsJson, call_daemon, err, out, plain, print_json

OPENER = {"linux": "xdg-open", "darwin": "open"}
# Whoever works from elsewhere, or as another user, has no browser here.
ELSEWHERE = ("SSH_CONNECTION", "SSH_TTY", "SUDO_USER")
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")
# In the background. The file goes when the browser has read it, which may have to start first.
OPEN_AND_REMOVE = '("$1" "$2"; sleep "$3"; rm -f "$2") &'
SECONDS_TO_READ = 30


def console(
    no_open: Annotated[bool, typer.Option("--no-open", help="Only print the link; no browser is started.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print a link to the console that signs you in, once, and open it in your browser. With --json only print it."""
    link, seconds = call_daemon(lambda client: client.console_link())
    if as_json:
        print_json({"url": link, "expiresInSeconds": seconds})
        return
    out.print(plain(link), highlight=False)
    opener = None if no_open else find_opener(sys.platform, os.environ)
    opened = "opened in your browser; " if opener is not None and open_unseen(opener, link) else ""
    err.print(plain(f"code-executor: {opened}the link works once, within {seconds:g} s"))


def find_opener(platform: str, environment: Mapping[str, str]) -> str | None:
    """Return what opens a browser for whoever sits at this machine; None if nobody does, or there is no browser."""
    has_display = platform == "darwin" or any(environment.get(name) for name in DISPLAYS)
    if not has_display or any(environment.get(name) for name in ELSEWHERE):
        return None
    return shutil.which(OPENER.get(platform, ""), path=environment.get("PATH"))


def open_unseen(opener: str, link: str) -> bool:
    """Have the link opened, and return whether that was begun; the browser's own noise goes nowhere.

    Every user of a machine sees the arguments of every process, so the link is in a file that only this user may read.
    It is in the home directory and has a plain name, because browsers in snaps may read nothing else.
    """
    page = f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={html.escape(link)}">\n'
    try:
        descriptor, name = tempfile.mkstemp(prefix="code-executor-console-", suffix=".html", dir=Path.home())
        with os.fdopen(descriptor, "w") as file:
            file.write(page)
        subprocess.run(  # noqa: S603
            ("/bin/sh", "-c", OPEN_AND_REMOVE, "sh", opener, name, str(SECONDS_TO_READ)),
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, RuntimeError, subprocess.CalledProcessError):  # no home directory, or no room in it
        return False
    return True

"""`code-executor tools`: what it asks the daemon for, and what it prints."""

from __future__ import annotations

import json

DESCRIPTION = "Reads [bold]a file[/] :bug: \x1b[2J\x9b31m"
HARMLESS = "Reads [bold]a file[/] :bug: ␛[2J\ufffd31m"


def test_a_listing_has_the_tools_of_each_server(daemon):
    daemon.answer({"tools": {"files": {"read": "Reads.", "write": "Writes."}, "github": {"search": "Searches."}}})
    ended = daemon.run("tools", "--server", "files")
    assert ended.exit_code == 0
    assert ended.stdout == "files/read  Reads.\nfiles/write  Writes.\ngithub/search  Searches.\n"
    assert daemon.asked == ["/tools?server=files&detail=description"]


def test_a_search_keeps_its_order_and_takes_several_wishes(daemon):
    found = [
        {"server": "b", "name": "y", "description": "Second letter."},
        {"server": "a", "name": "x", "description": "First letter."},
    ]
    daemon.answer({"tools": found})
    ended = daemon.run("tools", "write a file", "send mail")
    assert ended.stdout == "b/y  Second letter.\na/x  First letter.\n"
    assert daemon.asked == ["/tools/search?q=write+a+file&q=send+mail&detail=description"]


def test_what_a_server_says_about_its_tools_is_never_obeyed(daemon):
    daemon.answer({"tools": {"files": {"read": DESCRIPTION}}})
    assert daemon.run("tools").stdout == f"files/read  {HARMLESS}\n"


def test_json_is_exact(daemon):
    found = {"tools": {"files": {"read": DESCRIPTION}}}
    daemon.answer(found)
    ended = daemon.run("tools", "--json")
    assert json.loads(ended.stdout) == found
    assert "\x1b" not in ended.stdout
    assert "\x9b" not in ended.stdout


def test_a_refusal_is_told_in_one_line(daemon):
    daemon.refuse(401, "The key is not known.", "Send the key as a header.", "unauthenticated")
    ended = daemon.run("tools")
    assert (ended.exit_code, ended.stdout) == (77, "")
    assert ended.stderr == (
        "code-executor: The key is not known. Set CODE_EXECUTOR_KEY to a key that the daemon knows. "
        "'code-executor keys ensure' makes missing key files. (unauthenticated)\n"
    )

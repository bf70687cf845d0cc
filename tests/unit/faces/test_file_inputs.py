"""What a caller may write for a file, and what it is told if it may not."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from orchestrator.domain.errors import InvalidRequest
from orchestrator.domain.files import FromExecution, FromUpload, FromWorkspace, Given, Keep, WorkspaceUse
from orchestrator.faces.file_inputs import FileInput, sources_of, workspace_use

HASH = "0" * 64


def read(name="a.csv", **entry):
    return sources_of({name: FileInput.model_validate(entry)})[name]


@pytest.mark.parametrize(
    ("entry", "source"),
    [
        ({"text": "é"}, Given(b"\xc3\xa9")),
        ({"text": ""}, Given(b"")),
        ({"base64": "AP8="}, Given(b"\x00\xff")),
        ({"sha256": HASH}, FromUpload(HASH)),
        ({"from": {"execution": "e1", "name": "out/b.csv"}}, FromExecution("e1", "out/b.csv")),
        ({"from": {"workspace": "notes", "name": "b.csv"}}, FromWorkspace("notes", "b.csv")),
        ({"from": {"workspace": "notes", "name": "b", "version": "e1"}}, FromWorkspace("notes", "b", "e1")),
    ],
)
def test_each_way_to_give_a_file_is_understood(entry, source):
    assert read(**entry) == source


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ({}, "one of `text`, `base64`, `sha256` or `from`; it has none of them."),
        ({"text": "", "base64": ""}, "; it has `text` and `base64`."),
        ({"base64": "AP8"}, "`base64` must be base64 with its padding"),
        ({"base64": "A P 8 ="}, "`base64` must be base64 with its padding"),
        ({"base64": "é"}, "`base64` must be base64 with its padding"),
        ({"text": "\ud800"}, "`text` must be Unicode text"),
        ({"sha256": "../../etc/passwd"}, "`sha256` must have 64 hexadecimal digits"),
        ({"sha256": HASH.replace("0", "A")}, "`sha256` must have 64 hexadecimal digits"),
        ({"sha256": f"{HASH}\n"}, "`sha256` must have 64 hexadecimal digits"),
        ({"from": {"name": "a"}}, "`from` must have either `execution` or `workspace`, and `name`"),
        ({"from": {"execution": "e", "workspace": "w", "name": "a"}}, "`from` must have either"),
        ({"from": {"execution": "e", "version": "e", "name": "a"}}, "`version` of `from` goes with `workspace`"),
    ],
)
def test_what_is_wrong_is_told_with_the_name_of_the_file(entry, complaint):
    with pytest.raises(InvalidRequest) as refused:
        read("data/a.csv", **entry)
    assert refused.value.message.startswith("The file `data/a.csv`")
    assert complaint in refused.value.message


@pytest.mark.parametrize(
    "name", ["", "/etc/passwd", "../a", "a/../b", "a//b", "a/", "./a", "a\0b", "a\nb", "\ud800", "x" * 600, "a/" * 40]
)
def test_a_name_that_would_leave_its_folder_or_that_no_folder_takes_is_refused(name):
    with pytest.raises(InvalidRequest, match="is no name for a file"):
        read(name, text="")
    with pytest.raises(InvalidRequest, match="is no name for a file"):
        read(**{"from": {"execution": "e1", "name": name}})


@pytest.mark.parametrize("entry", [{"text": 1}, {"url": "http://x"}, {"from": {"execution": "e"}}, "text"])
def test_what_has_another_shape_is_refused(entry):
    with pytest.raises(ValidationError):
        FileInput.model_validate(entry)


def test_a_workspace_is_used_as_it_was_asked_for():
    assert workspace_use(None) is None
    assert workspace_use("notes", wait=False, keep=Keep.ALWAYS) == WorkspaceUse("notes", wait=False, keep=Keep.ALWAYS)


@pytest.mark.parametrize("name", ["", "../x", ".hidden", "a/b", "a b", "x" * 65, "é"])
def test_a_workspace_has_a_plain_name(name):
    with pytest.raises(InvalidRequest, match="`workspace` must have 1 to 64 letters"):
        workspace_use(name)


@pytest.mark.parametrize("asked", [{"wait": False}, {"keep": Keep.ALWAYS}])
def test_how_a_workspace_is_used_needs_one(asked):
    with pytest.raises(InvalidRequest, match="Name it in `workspace`"):
        workspace_use(None, **asked)

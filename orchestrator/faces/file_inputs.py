"""The files that a caller gives to a program: how each face takes them, and where their content comes from."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.domain.chat import printable
from orchestrator.domain.errors import InvalidRequest
from orchestrator.domain.files import (
    SHA256,
    FromExecution,
    FromUpload,
    FromWorkspace,
    Given,
    Keep,
    Source,
    WorkspaceUse,
    require_name,
    require_workspace_name,
)
from orchestrator.service.complaints import MUST_BE

SHOWN_NAME_CHARACTERS = 100


class KeptFile(BaseModel):
    """A file that an execution left, or that is in a workspace."""

    model_config = ConfigDict(extra="forbid", strict=True)

    execution: Annotated[str | None, Field(description="The execution that left it.")] = None
    workspace: Annotated[str | None, Field(description="Or the workspace that it is in.")] = None
    version: Annotated[
        str | None, Field(description="Of a workspace: the execution that made the version; the newest if absent.")
    ] = None
    name: Annotated[str, Field(description="Its name there.")]


class FileInput(BaseModel):
    """Where the content of a file comes from: exactly one of these."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={MUST_BE: "an object with one of `text`, `base64`, `sha256` or `from`"},
    )

    text: Annotated[str | None, Field(description="The content, as text.")] = None
    base64: Annotated[str | None, Field(description="The content, in base64.")] = None
    sha256: Annotated[str | None, Field(description="The hash of what you have sent to POST /files.")] = None
    kept: Annotated[KeptFile | None, Field(alias="from", description="A file of an execution or a workspace.")] = None

    def source(self, name: str) -> Source:
        """Return what the file of this name comes from."""
        entry = f"The file `{printable(name[:SHOWN_NAME_CHARACTERS])}`"
        ways = {"text": self.text, "base64": self.base64, "sha256": self.sha256, "from": self.kept}
        if len(given := [way for way, value in ways.items() if value is not None]) != 1:
            found = f"it has {' and '.join(f'`{way}`' for way in given)}" if given else "it has none of them"
            raise InvalidRequest(f"{entry} must have one of {_named(ways)}; {found}.")
        if self.text is not None:
            try:
                return Given(self.text.encode())
            except UnicodeEncodeError:
                raise InvalidRequest(f"{entry}: `text` must be Unicode text; it holds a lone surrogate.") from None
        if self.base64 is not None:
            try:
                return Given(b64decode(self.base64, validate=True))
            except (binascii.Error, ValueError):
                raise InvalidRequest(f"{entry}: `base64` must be base64 with its padding.") from None
        if self.sha256 is not None:
            if not SHA256.fullmatch(self.sha256):
                raise InvalidRequest(f"{entry}: `sha256` must have 64 hexadecimal digits, in lower case.")
            return FromUpload(self.sha256)
        assert self.kept is not None  # noqa: S101  (one of the four is given)
        return _kept(entry, self.kept)


def sources_of(files: Mapping[str, FileInput] | None) -> dict[str, Source]:
    """Return what each file comes from, or say which entry is wrong and why."""
    return {require_name(name): given.source(name) for name, given in (files or {}).items()}


def workspace_use(name: str | None, *, wait: bool = True, keep: Keep = Keep.SUCCESS) -> WorkspaceUse | None:
    if name is not None:
        return WorkspaceUse(require_workspace_name(name), wait, keep)
    if not wait or keep is not Keep.SUCCESS:
        raise InvalidRequest("`wait` and `keep` say how a workspace is used. Name it in `workspace`.")
    return None


def _kept(entry: str, kept: KeptFile) -> Source:
    if (kept.execution is None) == (kept.workspace is None):
        raise InvalidRequest(f"{entry}: `from` must have either `execution` or `workspace`, and `name`.")
    name = require_name(kept.name)
    if kept.execution is not None and kept.version is not None:
        raise InvalidRequest(f"{entry}: `version` of `from` goes with `workspace`.")
    if kept.execution is not None:
        return FromExecution(kept.execution, name)
    assert kept.workspace is not None  # noqa: S101  (one of the two is given)
    return FromWorkspace(require_workspace_name(kept.workspace), name, kept.version)


def _named(ways: Mapping[str, Any]) -> str:
    *first, last = (f"`{way}`" for way in ways)
    return f"{', '.join(first)} or {last}"

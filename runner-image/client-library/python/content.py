"""The values for what a tool returns besides JSON and text."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Image:
    mime_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class Audio:
    mime_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class Resource:
    """An embedded resource, which has either text or data."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    data: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class ResourceLink:
    uri: str
    name: str
    mime_type: str | None = None
    title: str | None = None
    description: str | None = None
    size: int | None = None


class NotBase64(Exception):
    """The message says what is not."""


def unwrap_content(content: Mapping[str, Any]) -> Any:
    """Turn a content of the protocol into a value; one of an unknown type stays as it is."""
    kind, resource = content.get("type"), content.get("resource")
    if kind == "image":
        return Image(content.get("mimeType", ""), _bytes("an image", content.get("data")))
    if kind == "audio":
        return Audio(content.get("mimeType", ""), _bytes("audio", content.get("data")))
    if kind == "resource_link":
        about = (content.get(key) for key in ("mimeType", "title", "description", "size"))
        return ResourceLink(content.get("uri", ""), content.get("name", ""), *about)
    if kind == "resource" and isinstance(resource, dict):
        data = _bytes("a resource", resource["blob"]) if "blob" in resource else None
        return Resource(resource.get("uri", ""), resource.get("mimeType"), resource.get("text"), data)
    return content


def _bytes(of: str, encoded: Any) -> bytes:
    """Decode base64, also with line breaks or without padding, as some servers write it."""
    try:
        text = "".join(encoded.split()).rstrip("=")
        return b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (AttributeError, ValueError):
        raise NotBase64(f"The tool returned {of} whose data is not base64.") from None

"""Serves the console's pages: our own files, and the libraries that were fetched when the images were built.

They hold no secret and are given to anybody; what they show, they ask the API for, with a session's token. All of them
are read once, when the daemon starts.
"""

from __future__ import annotations

import gzip
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path

from aiohttp import hdrs, web

STATIC = Path(__file__).parent / "static"
INDEX = "index.html"
ASSETS = b"/console/assets/"
# Everything comes from here and goes here; what a program printed can never become a script.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",  # asked for again each time, and mostly answered with 304
}
MEDIA_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
MISSING = """The console's libraries are missing: {directory} has no {name}.
'make image' fetches them; then start the daemon again. The API works without them.
"""
LIBRARIES = ("htm.js", "uplot.js", "uplot.css", "editor.js")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Asset:
    """A file as it is sent."""

    media_type: str
    plain: bytes
    packed: bytes
    etag: str

    @classmethod
    def of(cls, file: Path) -> Asset:
        return cls.made_of(file.read_bytes(), file.suffix)

    @classmethod
    def made_of(cls, plain: bytes, suffix: str = ".html") -> Asset:
        return cls(MEDIA_TYPES[suffix], plain, gzip.compress(plain, mtime=0), sha256(plain).hexdigest()[:32])

    def answer(self, request: web.Request, *, lasting: bool = False) -> web.Response:
        headers = {**HEADERS, "Vary": "Accept-Encoding"}
        if lasting:
            headers["Cache-Control"] = "public, max-age=31536000, immutable"
        if any(tag.value == self.etag for tag in request.if_none_match or ()):
            response = web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
        else:
            takes_gzip = "gzip" in request.headers.get(hdrs.ACCEPT_ENCODING, "")
            if takes_gzip:
                headers[hdrs.CONTENT_ENCODING] = "gzip"
            body = self.packed if takes_gzip else self.plain
            response = web.Response(body=body, content_type=self.media_type, charset="utf-8", headers=headers)
        response.etag = self.etag
        return response


class Console:
    """Our own files have their version in their path, so that a browser asks for each of them once."""

    def __init__(self, libraries: Path, static: Path = STATIC) -> None:
        found, self._assets = _read(libraries), _read(static)
        self._version = sha256("".join(asset.etag for asset in self._assets.values()).encode()).hexdigest()[:16]
        self._index = Asset.made_of(self._assets[INDEX].plain.replace(ASSETS, ASSETS + f"{self._version}/".encode()))
        self._libraries = {name: found[name] for name in LIBRARIES if name in found}
        missing = next((name for name in LIBRARIES if name not in self._libraries), None)
        self.problem = None if missing is None else MISSING.format(directory=libraries, name=missing)

    @property
    def routes(self) -> Mapping[str, Handler]:
        """Return who answers which path; each page is the same document, which looks at the path itself."""
        return {
            "/": self.page,
            "/docs": self.page,
            "/console": self.page,
            "/console/assets/{version:[0-9a-f]{16}}/{name:.+}": self.asset,
            "/console/vendor/{name}": self.library,
            "/console/{page:.*}": self.page,
        }

    async def page(self, request: web.Request) -> web.StreamResponse:
        if self.problem is not None:
            return web.Response(text=self.problem, status=HTTPStatus.SERVICE_UNAVAILABLE)
        return self._index.answer(request)

    async def asset(self, request: web.Request) -> web.StreamResponse:
        # A page from before an upgrade gets what there is now, but does not keep it under the old name.
        is_current = request.match_info["version"] == self._version
        return _named(self._assets, request).answer(request, lasting=is_current)

    async def library(self, request: web.Request) -> web.StreamResponse:
        return _named(self._libraries, request).answer(request)


def _named(assets: Mapping[str, Asset], request: web.Request) -> Asset:
    found = assets.get(request.match_info["name"])
    if found is None:
        raise web.HTTPNotFound
    return found


def _read(directory: Path) -> dict[str, Asset]:
    files = [file for file in sorted(directory.rglob("*")) if file.is_file() and file.suffix in MEDIA_TYPES]
    return {file.relative_to(directory).as_posix(): Asset.of(file) for file in files}

"""servers.json: the usual mcpServers form, and a short form for servers behind one proxy."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import structlog
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from orchestrator.upstreams.entries import (
    HttpKind,
    HttpServer,
    ServerEntry,
    StdioServer,
    UnusableServer,
)

log = structlog.get_logger()

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
# What a program needs to run at all; everything else of ours, keys above all, stays with us.
_INHERITED = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TERM", "TMPDIR"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
)


class ServersFileInvalid(Exception):
    """The message names the file, the line where it can be told, and what is wrong."""


class _Unusable(Exception):
    """Wrong with one server alone."""


class _ServerBody(BaseModel):
    model_config = ConfigDict(extra="allow", hide_input_in_errors=True)  # other clients have keys of their own

    type: Literal["http", "streamable-http", "sse", "stdio"] | None = None
    url: str | None = None
    headers: dict[HeaderName, str] = Field(default_factory=dict)
    command: str | None = None
    args: list[str] = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict)
    cwd: str | None = None
    disabled: bool = False

    @model_validator(mode="after")
    def _is_one_kind(self) -> _ServerBody:
        if (self.url is None) == (self.command is None):
            raise ValueError("needs either a url or a command")
        if self.type is not None and (self.type == "stdio") != (self.command is not None):
            raise ValueError("has a type that does not fit: stdio goes with a command, the others with a url")
        return self


class _ProxyBody(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    url: str = "http://mcp-proxy:9090"
    servers: list[Name]
    path: Annotated[str, StringConstraints(pattern=r"^/.*\{server\}")] = "/{server}/mcp"
    token: str | None = None


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    mcp_servers: dict[Name, _ServerBody] = Field(default_factory=dict, alias="mcpServers")
    proxy: _ProxyBody | None = None


def read_servers(file: Path, environment: Mapping[str, str]) -> tuple[ServerEntry, ...]:
    """A file that is not there names no servers; one that is wrong raises ServersFileInvalid."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise ServersFileInvalid(f"{file}: cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise ServersFileInvalid(f"{file}: is not UTF-8 text.") from None
    return _Reading(file, text, environment).entries()


class _Reading:
    def __init__(self, file: Path, text: str, environment: Mapping[str, str]) -> None:
        self._file = file
        self._text = text
        self._environment = environment

    def entries(self) -> tuple[ServerEntry, ...]:
        document = self._document()
        self._refuse_duplicates(document)
        direct = [self._direct(name, body) for name, body in document.mcp_servers.items() if not body.disabled]
        return (*direct, *self._behind_proxy(document.proxy))

    def _document(self) -> _Document:
        try:
            parsed = json.loads(self._text, object_pairs_hook=self._without_repeated_keys)
            return _Document.model_validate(parsed)
        except json.JSONDecodeError as error:
            raise self._invalid(error.lineno, error.msg) from None
        except RecursionError:
            raise self._invalid(1, "is nested too deeply") from None
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            where = [part for part in first["loc"] if part != "[key]"]
            known = where[:-1] if first["type"] == "missing" else where
            path = ".".join(str(part) for part in where) or "the file"
            raise self._invalid(self._line_of(known), f"{path}: {first['msg'].removeprefix('Value error, ')}") from None

    def _without_repeated_keys(self, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise self._invalid(self._last_line_of(key), f"{key} is there twice")
            found[key] = value
        return found

    def _refuse_duplicates(self, document: _Document) -> None:
        seen = set(document.mcp_servers)
        for name in document.proxy.servers if document.proxy else ():
            if name in seen:
                raise self._invalid(self._last_line_of(name), f"the server {name} is there twice")
            seen.add(name)

    def _direct(self, name: str, body: _ServerBody) -> ServerEntry:
        for key in body.model_extra or {}:
            log.warning("servers_file.key_ignored", server=name, key=key)
        try:
            return self._http(name, body) if body.url is not None else self._stdio(name, body)
        except _Unusable as problem:
            return self._unusable(name, ["mcpServers", name], problem)

    def _http(self, name: str, body: _ServerBody) -> HttpServer:
        url = _checked_url(self._expand(body.url or ""))
        headers = {key: _checked_header(key, self._expand(value)) for key, value in body.headers.items()}
        return HttpServer(name, url, _kind(body.type, url), headers)

    def _stdio(self, name: str, body: _ServerBody) -> StdioServer:
        own = {key: self._expand(value) for key, value in body.env.items()}
        inherited = {key: self._environment[key] for key in _INHERITED if key in self._environment}
        written = [body.command or "", *body.args, body.cwd or ""]
        return StdioServer(
            name=name,
            command=self._expand(body.command or ""),
            args=tuple(self._expand(argument) for argument in body.args),
            env=inherited | own,
            cwd=self._expand(body.cwd) if body.cwd is not None else None,
            secrets=frozenset(own.values()) | frozenset(self._values_in(written)),
        )

    def _behind_proxy(self, proxy: _ProxyBody | None) -> Iterator[ServerEntry]:
        if proxy is None:
            return
        for name in proxy.servers:
            try:
                yield self._proxied(name, proxy)
            except _Unusable as problem:
                yield self._unusable(name, ["proxy"], problem)

    def _proxied(self, name: str, proxy: _ProxyBody) -> HttpServer:
        base = self._expand(proxy.url).rstrip("/")
        url = _checked_url(base + proxy.path.replace("{server}", name))
        headers = {}
        if proxy.token is not None:
            headers["Authorization"] = _checked_header("token", f"Bearer {self._expand(proxy.token)}")
        return HttpServer(name, url, HttpKind.STREAMABLE, headers)

    def _expand(self, text: str) -> str:
        return _VARIABLE.sub(self._value, text)

    def _value(self, variable: re.Match[str]) -> str:
        name, default = variable.groups()
        value = self._environment.get(name)
        if default is not None:
            return value or default
        if value is None:
            raise _Unusable(f"the variable {name} is not set")
        return value

    def _values_in(self, texts: Sequence[str]) -> Iterator[str]:
        return (self._value(variable) for text in texts for variable in _VARIABLE.finditer(text))

    def _unusable(self, name: str, path: Sequence[str], problem: _Unusable) -> UnusableServer:
        return UnusableServer(name, f"{self._file.name}, line {self._line_of(path)}: {problem}")

    def _invalid(self, line: int, problem: str) -> ServersFileInvalid:
        return ServersFileInvalid(f"{self._file}, line {line}: {problem}.")

    def _line_of(self, path: Sequence[str | int]) -> int:
        """Follows the keys one after the other, since a key such as url is there many times."""
        position = 0
        for key in filter(lambda part: isinstance(part, str), path):
            found = re.compile(rf"{re.escape(json.dumps(key))}\s*:").search(self._text, position)
            position = found.start() if found else position
        return self._text.count("\n", 0, position) + 1

    def _last_line_of(self, word: str) -> int:
        return self._text.count("\n", 0, max(0, self._text.rfind(json.dumps(word)))) + 1


def _kind(declared: str | None, url: str) -> HttpKind:
    if declared == "sse" or (declared is None and urlsplit(url).path.rstrip("/").endswith("/sse")):
        return HttpKind.SSE
    return HttpKind.STREAMABLE


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or _CONTROL.search(url) or " " in url:
        raise _Unusable("its url is not a usable http or https address")
    return url


def _checked_header(name: str, value: str) -> str:
    if _CONTROL.search(value):
        raise _Unusable(f"{name} holds a line break or another control character")
    return value

"""servers.json: the usual mcpServers form, and a short form for servers behind one proxy."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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

HOST = "host.docker.internal"

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
ToolPattern = Annotated[str, StringConstraints(min_length=1, max_length=256)]
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
    """Something is wrong with one server; the others are used all the same."""


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
    contents: Literal["list"] | None = None
    session: Literal["execution"] | None = None
    withhold: list[ToolPattern] = Field(default_factory=list)
    host: bool = False  # whether it may be on the machine that the daemon's container runs on
    container: dict[str, Any] | None = None  # of a server that runs in a container of the stack; for deploy/stack

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
    type: Literal["http", "streamable-http", "sse"] | None = None
    path: Annotated[str, StringConstraints(pattern=r"^/.*\{server\}")] | None = None
    token: str | None = None


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    mcp_servers: dict[Name, _ServerBody] = Field(default_factory=dict, alias="mcpServers")
    proxy: _ProxyBody | None = None


def read_servers(file: Path, environment: Mapping[str, str], *, asks_for_host: bool = False) -> tuple[ServerEntry, ...]:
    """Read the file; one that is not there names no servers, one that is wrong raises ServersFileInvalid.

    With `asks_for_host`, only an entry that says `"host": true` may be on the machine around the daemon's container.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise ServersFileInvalid(f"{file} cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise ServersFileInvalid(f"{file} is not UTF-8 text. Save it as UTF-8.") from None
    return _Reading(file, text, environment, asks_for_host).entries()


@dataclass(frozen=True, slots=True)
class _Reading:
    _file: Path
    _text: str
    _environment: Mapping[str, str]
    _asks_for_host: bool = False

    def entries(self) -> tuple[ServerEntry, ...]:
        document = self._document()
        entries: list[ServerEntry] = []
        for name, body in document.mcp_servers.items():
            if body.disabled:
                continue
            for key in body.model_extra or {}:
                log.warning("servers_file.key_ignored", server=name, key=key)
            try:
                entries.append(self._http(name, body) if body.url is not None else self._stdio(name, body))
            except _Unusable as problem:
                entries.append(self._unusable(name, ["mcpServers", name], problem))
        if document.proxy is not None:
            for name in document.proxy.servers:
                try:
                    entries.append(self._proxied(name, document.proxy))
                except _Unusable as problem:
                    entries.append(self._unusable(name, ["proxy"], problem))
        return tuple(entries)

    def _document(self) -> _Document:
        try:
            parsed = json.loads(self._text, object_pairs_hook=self._without_repeated_keys)
            document = _Document.model_validate(parsed)
        except json.JSONDecodeError as error:
            raise self._invalid(error.lineno, error.msg) from None
        except RecursionError:
            raise self._invalid(1, "the JSON is nested too deeply") from None
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            where = [part for part in first["loc"] if part != "[key]"]
            known = where[:-1] if first["type"] == "missing" else where
            path = ".".join(str(part) for part in where) or "the file"
            raise self._invalid(self._line_of(known), f"{path}: {first['msg'].removeprefix('Value error, ')}") from None
        names = set(document.mcp_servers)
        for name in document.proxy.servers if document.proxy else ():
            if name in names:
                raise self._appears_twice(name)
            names.add(name)
        return document

    def _without_repeated_keys(self, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise self._appears_twice(key)
            found[key] = value
        return found

    def _http(self, name: str, body: _ServerBody) -> HttpServer:
        url = _checked_url(self._expand(body.url or ""))
        if self._asks_for_host and not body.host and urlsplit(url).hostname == HOST:
            raise _Unusable(f'its url is on {HOST}: add "host": true if it may be on this machine')
        headers = {key: _checked_header(key, self._expand(value)) for key, value in body.headers.items()}
        return HttpServer(
            name,
            url,
            _http_kind(body.type, url),
            headers,
            lists_contents=body.contents == "list",
            has_own_sessions=body.session == "execution",
            withheld=tuple(body.withhold),
        )

    def _stdio(self, name: str, body: _ServerBody) -> StdioServer:
        own = {key: self._expand(value) for key, value in body.env.items()}
        inherited = {key: self._environment[key] for key in _INHERITED if key in self._environment}
        written = [body.command or "", *body.args, body.cwd or ""]
        expanded = [self._value(variable) for text in written for variable in _VARIABLE.finditer(text)]
        return StdioServer(
            name=name,
            command=self._expand(body.command or ""),
            args=tuple(self._expand(argument) for argument in body.args),
            env=inherited | own,
            cwd=self._expand(body.cwd) if body.cwd is not None else None,
            secrets=frozenset([*own.values(), *expanded]),
            lists_contents=body.contents == "list",
            has_own_sessions=body.session == "execution",
            withheld=tuple(body.withhold),
        )

    def _proxied(self, name: str, proxy: _ProxyBody) -> HttpServer:
        base = self._expand(proxy.url).rstrip("/")
        path = proxy.path or ("/{server}/sse" if proxy.type == "sse" else "/{server}/mcp")
        url = _checked_url(base + path.replace("{server}", name))
        headers = {}
        if proxy.token is not None:
            headers["Authorization"] = _checked_header("token", f"Bearer {self._expand(proxy.token)}")
        return HttpServer(name, url, _http_kind(proxy.type, url), headers)

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

    def _unusable(self, name: str, path: Sequence[str], problem: _Unusable) -> UnusableServer:
        return UnusableServer(name, f"{self._file.name}, line {self._line_of(path)}: {problem}")

    def _invalid(self, line: int, problem: str) -> ServersFileInvalid:
        return ServersFileInvalid(f"{self._file}, line {line}: {problem}.")

    def _appears_twice(self, word: str) -> ServersFileInvalid:
        line = self._text.count("\n", 0, max(0, self._text.rfind(json.dumps(word)))) + 1
        return self._invalid(line, f"{word} appears twice. Remove one of the two")

    def _line_of(self, path: Sequence[str | int]) -> int:
        """Follow the keys one after the other, since a key such as url is there many times."""
        position = 0
        for key in filter(lambda part: isinstance(part, str), path):
            found = re.compile(rf"{re.escape(json.dumps(key))}\s*:").search(self._text, position)
            position = found.start() if found else position
        return self._text.count("\n", 0, position) + 1


def _http_kind(type_: str | None, url: str) -> HttpKind:
    is_sse = type_ == "sse" or (type_ is None and urlsplit(url).path.rstrip("/").endswith("/sse"))
    return HttpKind.SSE if is_sse else HttpKind.STREAMABLE


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or _CONTROL.search(url) or " " in url:
        raise _Unusable("its url must be a valid http or https address")
    return url


def _checked_header(name: str, value: str) -> str:
    if _CONTROL.search(value):
        raise _Unusable(f"{name} must not contain line breaks or other control characters")
    return value

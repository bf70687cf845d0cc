"""Says what to do about an uncaught error, where what is wrong is known; one line, for whoever writes the program."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from types import TracebackType

_NO_LOCKS = "A sandbox has no shared memory for process pools and multiprocessing locks: use threads or subprocess."
_NO_NETWORK = (
    "A sandbox has no network: call a tool instead. servers.discovery.search_tools('what it should do') finds one."
)
_IS_TYPESCRIPT = 'This looks like TypeScript: set language to "typescript".'

# What is imported to reach other machines, which no sandbox can.
_FOR_NETWORKS = {
    *("aiohttp", "anthropic", "asyncpg", "boto3", "botocore", "google", "googleapiclient", "grpc", "httplib2"),
    *("httpx", "kafka", "mechanize", "minio", "motor", "mysql", "openai", "paramiko", "pika", "playwright"),
    *("psycopg", "psycopg2", "pycurl", "pymongo", "pymysql", "redis", "requests", "selenium", "slack_sdk"),
    *("snowflake", "sqlalchemy", "stripe", "tweepy", "urllib3", "websocket", "websockets", "yfinance"),
}
# What comes with other packages, and nobody looks for.
_PLUMBING = {
    *("contourpy", "cycler", "et_xmlfile", "fontTools", "kiwisolver", "mpl_toolkits", "packaging", "pip"),
    *("pkg_resources", "pylab", "pyparsing", "pytz", "setuptools", "six", "soupsieve", "typing_extensions", "tzdata"),
}
_NETWORK_ERRORS = {errno.ENETUNREACH, errno.EHOSTUNREACH}
# The folders of the workspace in which files come, with the program and from the one before.
_GIVEN, _LASTING = "in", "files"
_MAX_NAMED = 10
_READING_TOOLS = ("read_text_file", "read_file", "get_file_contents", "read")

_TYPESCRIPT = re.compile(
    r"^[ \t]*(?:(?:export )?(?:const|let|var) +[\w${\[]|(?:export )?(?:async )?function\b|(?:export )?interface \w+"
    r"|import\b.*\bfrom ['\"]|import ['\"]|//)|=>|\bconsole\.\w+\(|\bawait Promise\.",
    re.MULTILINE,
)
_PYTHON = re.compile(
    r"^[ \t]*(?:(?:async )?def \w+\(|(?:from [\w.]+ )?import [\w.]+(?: as \w+)?[ \t]*(?:[,#]|$)|print\("
    r"|(?:if|elif|for|while|with|class|try|except|else)\b[^{\n]*:[ \t]*(?:#.*)?$)",
    re.MULTILINE,
)
_OF_TYPESCRIPT = {"console", "require", "JSON", "Promise", "process", "undefined", "Object", "Math"}


def hint(error: BaseException, trace: TracebackType | None, main: str) -> str:
    """Return a line on the cause of the error, or nothing if it is not known."""
    found = _hint(error, trace, main)
    return f"{found}\n" if found else ""


def _hint(error: BaseException, trace: TracebackType | None, main: str) -> str | None:
    workspace = os.path.dirname(main)
    if isinstance(error, ModuleNotFoundError):
        return _on_missing_module(error.name or "", workspace)
    if isinstance(error, SyntaxError):
        return _IS_TYPESCRIPT if error.filename == main and _looks_like_typescript(main) else None
    if isinstance(error, NameError):
        return _IS_TYPESCRIPT if error.name in _OF_TYPESCRIPT and _looks_like_typescript(main) else None
    if isinstance(error, OSError):
        return _on_system_error(error, trace, workspace)
    return None


def _looks_like_typescript(main: str) -> bool:
    with open(main, encoding="utf-8", errors="replace") as file:
        code = file.read()
    return bool(_TYPESCRIPT.search(code)) and not _PYTHON.search(code)


def _on_system_error(error: OSError, trace: TracebackType | None, workspace: str) -> str | None:
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    raised_in = trace.tb_frame.f_code.co_filename if trace is not None else ""
    if raised_in.endswith("/multiprocessing/synchronize.py"):
        return _NO_LOCKS
    reason = getattr(error, "reason", error)  # urllib's errors carry their cause so
    if type(reason).__name__ == "gaierror" or getattr(reason, "errno", None) in _NETWORK_ERRORS:
        return _NO_NETWORK
    if isinstance(error, FileNotFoundError) and not raised_in.endswith("/subprocess.py"):
        return _on_missing_file(error.filename, workspace)
    return None


def _on_missing_file(missing: object, workspace: str) -> str | None:
    """Tell what there is where the program looked, or of a server that calls its directory /workspace, too."""
    path = os.path.abspath(os.fsdecode(missing)) if isinstance(missing, str | bytes) else ""
    given = os.path.join(workspace, _GIVEN)
    lasting = os.path.join(workspace, _LASTING)
    if path.startswith(f"{given}/"):
        return _what_is_in(given) or f"{given} is empty: no `files` were given."
    if path == lasting or path.startswith(f"{lasting}/"):
        if not os.path.isdir(lasting):
            return f"{lasting} is there only for executions with a `workspace`."
        return _what_is_in(lasting) or f"{lasting} is empty: nothing was left in this workspace yet."
    for folder in (given, lasting):
        if path and os.path.exists(meant := os.path.join(folder, os.path.basename(path))):
            return f"There is {meant}."
    for server in _servers(workspace):
        for tool in _READING_TOOLS:
            if tool in _tools(workspace, server):
                return (
                    f"The sandbox has files of its own: a file of the server '{server}' is read with "
                    f"servers.{server}.{tool}(path=...)."
                )
    return None


def _what_is_in(folder: str) -> str | None:
    """Name the files in a folder, the first ones if there are many."""
    paths = [os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names]
    names = sorted(os.path.relpath(path, folder) for path in paths)
    if not names:
        return None
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return f"{folder} has: {', '.join(names[:_MAX_NAMED])}{more}."


def _on_missing_module(name: str, workspace: str) -> str | None:
    package, _, below = name.partition(".")
    if package == "servers":
        return _on_missing_wrapper(below, workspace)
    if package == "skills":
        return _on_missing_skill(below, workspace)
    if below:  # the package is there
        return None
    if package in _servers(workspace):
        return f"The tools of a server are imported from servers.{package}."
    if package in _FOR_NETWORKS:
        return _NO_NETWORK
    installed = _installed()
    if imported_as := installed.get(package.lower().replace("_", "-")):
        return f"It is imported as {imported_as}."
    there = sorted(set(installed.values()), key=str.lower)
    meant = _meant(package, [*there, *sys.stdlib_module_names])
    packages = f" There are: {', '.join(there)}." if there else " There is only the standard library."
    return f"{package} is not in the sandbox, and nothing can be installed.{meant}{packages}"


def _on_missing_wrapper(name: str, workspace: str) -> str:
    server, _, tool = name.partition(".")
    servers = _servers(workspace)
    if server not in servers:
        there = f"there are: {', '.join(servers)}" if servers else "there is none"
        return f"There is no server '{server}'; {there}.{_meant(server, servers)}"
    tools = _tools(workspace, server)
    return f"The server '{server}' has no tool '{tool}'; it has: {', '.join(tools)}.{_meant(tool, tools)}"


def _on_missing_skill(name: str, workspace: str) -> str:
    skills = _names_in(f"{workspace}/skills", ".py")
    there = f"there are: {', '.join(skills)}" if skills else "there is none that you may use"
    return f"There is no such skill; {there}.{_meant(name, skills)}"


def _meant(name: str, candidates: Iterable[str]) -> str:
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    found = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.7)
    return f" Did you mean {by_lower[found[0]]}?" if found else ""


def _installed() -> dict[str, str]:
    """Return the name under which each installed package is imported, by the name under which it is published."""
    from importlib.metadata import packages_distributions

    found: dict[str, str] = {}
    for module, distributions in packages_distributions().items():
        for distribution in distributions:
            published = distribution.lower().replace("_", "-")
            is_offered = module.isidentifier() and not module.startswith("_") and module not in _PLUMBING
            if is_offered and (published not in found or module == published):
                found[published] = module
    return found


def _servers(workspace: str) -> list[str]:
    """Return the servers whose tools can be imported."""
    return _names_in(f"{workspace}/servers", "")


def _tools(workspace: str, server: str) -> list[str]:
    return _names_in(f"{workspace}/servers/{server}", ".py")


def _names_in(directory: str, suffix: str) -> list[str]:
    try:
        entries = sorted(os.listdir(directory))
    except OSError:
        return []
    names = (name.removesuffix(suffix) for name in entries if name.endswith(suffix))
    return [name for name in names if name.isidentifier() and not name.startswith("_")]

"""Finds what a TypeScript program surely gets wrong, by what the compiler says of it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence

from checking.compiler import Compiler
from checking.kinds import kinds_of, surely_clash
from checking.mistakes import Mistake, no_such_server, no_such_tool
from checking.spans import Calls
from checking.wrapped import Servers, TypeScriptTool

_SUFFIX = ".ts"
_TSC = os.environ.get("CODE_EXECUTOR_TSC", "/opt/check/typescript/tsc")
_NODE = os.environ.get("CODE_EXECUTOR_NODE", "/usr/local/bin/node")
_RUNNER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Without strictness: what may be null or is of no declared type may well be right. Without the types of Node.js and of
# packages, which take longer to read than the program: all of their names may be anything.
_OPTIONS = (
    *("--ignoreConfig", "--noEmit", "--pretty", "false", "--strict", "false", "--skipLibCheck", "--singleThreaded"),
    *("--target", "esnext", "--lib", "esnext", "--types", "", "--moduleDetection", "force"),
    *("--module", "esnext", "--moduleResolution", "bundler", "--allowImportingTsExtensions"),
)
_COMPLAINT = re.compile(r"\S*main\.ts\((\d+),(\d+)\): error TS(\d+): (.*)")
_IMPORT = re.compile(r"""^[ \t]*import\s+(?!type\b)([^'";]+?)\s+from\s*['"]([^'"]+)['"]""", re.MULTILINE)
_NAMED = re.compile(r"(?:type\s+)?([\w$]+)(?:\s+as\s+([\w$]+))?")
_SERVER_PATH = re.compile(r"(?:/workspace|\.)/servers/([\w$-]+)(?:/([\w$-]+?)(?:\.[jt]s)?)?/?")
_NOT_ASSIGNABLE = re.compile(r"(?:Type|Argument of type) '(.+)' is not assignable to (?:parameter of )?type '(.+)'\.")
_UNKNOWN_ARGUMENT = re.compile(r".*'([^']+)' does not exist in type '(.+?)'\.(?: Did you mean to write '([^']+)'\?)?")
_MISSING = re.compile(r"Property '(.+)' is missing in type '.+' but required in type '(.+)'\.")
_MISSING_SEVERAL = re.compile(r"Type '.+' is missing the following properties from type '(.+)': (.+)")
_NO_PROPERTY = re.compile(r"Property '(.+)' does not exist on type '(.+)'\.(?: Did you mean '(.+)'\?)?")
_NO_MEMBER = re.compile(r".*has no exported member(?: named)? '(.+?)'.*")
_NO_MODULE = re.compile(r"Cannot find module '(.+)' or its .*")
_NOT_ITERABLE = re.compile(r"Type '(Promise<.*>)' .*")
_UNDEFINED = re.compile(r"Cannot find name '(.+?)'\.(?: Did you mean '(.+?)'\?)?.*")
_PROMISED = re.compile(r"\w+Output\w*")
_LIBRARY = {"discovery", "errors", "content", "output"}
_FIRST_GRAMMAR, _FIRST_SEMANTIC = 1000, 2000
_MAX_TYPE_CHARACTERS = 120


def mistakes_in(workspace: str) -> Iterator[Mistake]:
    path = f"{workspace}/main.ts"
    try:
        compiler = Compiler([_TSC, *_OPTIONS, path, f"{_RUNNER}/checking/sandbox.d.ts"], {"GOGC": "400"})
    except OSError:
        return
    with open(path, encoding="utf-8", errors="replace") as file:
        code = file.read()
    program = _Program(code, Servers(workspace))
    yield from program.read(compiler.complaints(), path)


class _Complaint:
    """One error of the compiler, with the lines that explain it further."""

    def __init__(self, line: int, column: int, code: int, text: str) -> None:
        self.line = line
        self.column = column
        self.code = code
        self.text = text
        self.because: list[str] = []

    def says(self, message: str, tool: TypeScriptTool | None = None) -> Mistake:
        return Mistake(self.line, self.column, message, (tool.signature or "") if tool else "")


class _Program:
    def __init__(self, code: str, servers: Servers) -> None:
        self._lines = code.split("\n")
        self._servers = servers
        self._tools: dict[str, TypeScriptTool] = {}  # by the name that they have in the program
        self._namespaces: dict[str, str] = {}
        self._wrong_imports: dict[str, str] = {}  # by their path
        for clause, path in _IMPORT.findall(code):
            self._note_import(clause, path)
        self._calls = Calls(code, self._tool_named)

    def read(self, lines: Sequence[str], path: str) -> Iterator[Mistake]:
        complaints: list[_Complaint] = []
        for line in lines:
            if said := _COMPLAINT.fullmatch(line):
                complaints.append(_Complaint(int(said[1]), int(said[2]), int(said[3]), said[4]))
            elif complaints and line.startswith(" "):
                complaints[-1].because.append(line.strip())
        grammar = [each for each in complaints if _FIRST_GRAMMAR <= each.code < _FIRST_SEMANTIC]
        if grammar and not _parses(path):
            yield grammar[0].says(f"This is not TypeScript: {grammar[0].text}")
            return
        for complaint in complaints:
            if (judge := _JUDGES.get(complaint.code)) is not None and (mistake := judge(self, complaint)) is not None:
                yield mistake

    # --- imports ---

    def _note_import(self, clause: str, path: str) -> None:
        found = _SERVER_PATH.fullmatch(path)
        if found is None or found[1] in _LIBRARY:
            return
        server, tool = found[1], found[2]
        tools = self._servers.tools(server, _SUFFIX)
        if server not in self._servers.names:
            self._wrong_imports[path] = no_such_server(server, self._servers.names)
        elif tool not in (None, "index", *tools):
            self._wrong_imports[path] = no_such_tool(str(tool), server, tools)
        if namespace := re.fullmatch(r"\*\s+as\s+([\w$]+)", clause.strip()):
            self._namespaces[namespace[1]] = server
        for name, local in _NAMED.findall(clause) if "{" in clause else ():
            if name in tools:
                source = self._servers.source(server, name, _SUFFIX)
                self._tools[local or name] = TypeScriptTool(name, source)

    def _tool_named(self, namespace: str | None, name: str) -> str | None:
        """Return under which name the tool is known that a call calls, if it calls one."""
        if namespace is None:
            return name if name in self._tools else None
        server = self._namespaces.get(namespace)
        if server is None or name not in self._servers.tools(server, _SUFFIX):
            return None
        spelled = f"{namespace}.{name}"
        self._tools.setdefault(spelled, TypeScriptTool(name, self._servers.source(server, name, _SUFFIX)))
        return spelled

    def _tool_at(self, complaint: _Complaint) -> TypeScriptTool | None:
        call = self._calls.with_argument_at(self._place(complaint))
        return self._tools[call.tool] if call else None

    def _place(self, complaint: _Complaint) -> int:
        return sum(len(line) + 1 for line in self._lines[: complaint.line - 1]) + complaint.column - 1

    # --- what the compiler complains of, by its number ---

    def no_module(self, complaint: _Complaint) -> Mistake | None:
        found = _NO_MODULE.fullmatch(complaint.text)
        told = self._wrong_imports.get(found[1]) if found else None
        return complaint.says(told) if told and not self._is_tried(complaint) else None

    def no_member(self, complaint: _Complaint) -> Mistake | None:
        found = _NO_MEMBER.fullmatch(complaint.text)
        path = re.search(r"/servers/([\w$-]+)/(?:index\.[jt]s|[\w$-]+\.[jt]s)?", self._lines[complaint.line - 1])
        path = path or re.search(r"/servers/([\w$-]+)/", complaint.text)
        if not found or not path or path[1] not in self._servers.names:
            return None
        return complaint.says(no_such_tool(found[1], path[1], self._servers.tools(path[1], _SUFFIX)))

    def unknown_argument(self, complaint: _Complaint) -> Mistake | None:
        tool, found = self._tool_at(complaint), _UNKNOWN_ARGUMENT.fullmatch(complaint.text)
        if tool is None or found is None:
            return None
        meant = f" Did you mean `{found[3]}`?" if found[3] else ""
        return complaint.says(f"`{tool.name}` has no argument `{found[1]}`.{meant}", tool)

    def missing_argument(self, complaint: _Complaint) -> Mistake | None:
        tool = self._tool_at(complaint)
        written = self._calls.literal_at(self._place(complaint))
        if tool is None or not written.startswith("{") or "..." in written:
            return None
        if found := _MISSING.fullmatch(complaint.text):
            names, wanted = [found[1]], found[2]
        elif found := _MISSING_SEVERAL.fullmatch(complaint.text):
            names, wanted = found[2].split(", "), found[1]
        else:
            return None
        if wanted not in tool.types:
            return None
        needed = " and ".join(f"`{name.strip()}`" for name in names)
        return complaint.says(f"`{tool.name}` needs {needed}.", tool)

    def no_arguments(self, complaint: _Complaint) -> Mistake | None:
        line = self._lines[complaint.line - 1][complaint.column - 1 :]
        called = re.match(r"[\w$]+", line)
        tool = self._tools.get(called[0]) if called else None
        if tool is None or not complaint.text.endswith("but got 0."):
            return None
        return complaint.says(f"`{tool.name}` needs arguments.", tool)

    def wrong_type(self, complaint: _Complaint) -> Mistake | None:
        told = [complaint.text, *complaint.because]
        clashes = [found.groups() for line in told if (found := _NOT_ASSIGNABLE.fullmatch(line))]
        if not clashes:
            return None
        given, wanted = clashes[-1]
        tool = self._tool_at(complaint)
        if _is_promise_of_a_tool(given) and kinds_of(wanted) not in (None, frozenset({"promise"})):
            return complaint.says(_AWAIT)
        if tool is None or not surely_clash(given, wanted) or re.search(r"\.\.\.", self._argument(complaint)):
            return None
        wanted_briefly, given_briefly = (_brief(each) for each in (wanted, given))
        name = next((f[1] for line in told if (f := re.fullmatch(r"Types of property '(.+)' are .*", line))), None)
        name = name or self._property_at(complaint)
        subject = f"`{name}` of `{tool.name}`" if name else f"The argument of `{tool.name}`"
        return complaint.says(f"{subject} must be {wanted_briefly}, not {given_briefly}.", tool)

    def nothing_in_common(self, complaint: _Complaint) -> Mistake | None:
        tool = self._tool_at(complaint)
        found = re.fullmatch(r"Type '(.+)' has no properties in common with type '(.+)'\.", complaint.text)
        if tool is None or found is None or kinds_of(found[1]) in (None, frozenset({"object"})):
            return None
        return complaint.says(f"The argument of `{tool.name}` must be an object.", tool)

    def no_property(self, complaint: _Complaint) -> Mistake | None:
        found = _NO_PROPERTY.fullmatch(complaint.text)
        if found is None or self._is_optional(complaint):
            return None
        name, owner, meant = found[1], found[2], found[3]
        if _is_promise_of_a_tool(owner):
            return complaint.says(_AWAIT)
        if not _PROMISED.fullmatch(owner) or self._assigned_at(complaint, name):
            return None
        told = f"The result has no `{name}`.{f' Did you mean `{meant}`?' if meant else ''}"
        tool = next((tool for tool in self._tools.values() if owner in tool.types), None)
        return complaint.says(told, tool)

    def not_iterable(self, complaint: _Complaint) -> Mistake | None:
        found = _NOT_ITERABLE.match(complaint.text)
        return complaint.says(_AWAIT) if found and _is_promise_of_a_tool(found[1]) else None

    def undefined(self, complaint: _Complaint) -> Mistake | None:
        found = _UNDEFINED.fullmatch(complaint.text)
        before = self._lines[complaint.line - 1][: complaint.column - 1]
        if found is None or self._is_tried(complaint) or re.search(r"\btypeof\s*$", before):
            return None
        if found[1][:1].isupper() and re.search(r"(?:\bas|\bsatisfies|\bimplements|[<|&:])\s*$", before):
            return None  # probably a type, which does not exist when the program runs
        meant = f" Did you mean `{found[2]}`?" if found[2] else ""
        return complaint.says(f"`{found[1]}` is not defined.{meant}")

    # --- where a complaint stands ---

    def _is_tried(self, complaint: _Complaint) -> bool:
        return self._calls.is_tried(self._place(complaint))

    def _is_optional(self, complaint: _Complaint) -> bool:
        return self._lines[complaint.line - 1][: complaint.column - 1].endswith("?.")

    def _assigned_at(self, complaint: _Complaint, name: str) -> bool:
        rest = self._lines[complaint.line - 1][complaint.column - 1 + len(name) :]
        return re.match(r"\s*(?:\?\?|\|\||&&)?=(?!=)", rest) is not None

    def _property_at(self, complaint: _Complaint) -> str | None:
        found = re.match(r"""['"]?([\w$]+)['"]?\s*[:,}]""", self._lines[complaint.line - 1][complaint.column - 1 :])
        return found[1] if found else None

    def _argument(self, complaint: _Complaint) -> str:
        return self._calls.literal_at(self._place(complaint))


_AWAIT = "This is a Promise, not its result: write `await` before the call."


def _is_promise_of_a_tool(spelled: str) -> bool:
    return re.fullmatch(r"Promise<(?:\w+(?:Output|Observed)\w*(?:\[\])?|unknown)>", spelled) is not None


def _brief(spelled: str) -> str:
    return spelled if len(spelled) <= _MAX_TYPE_CHARACTERS else f"{spelled[:_MAX_TYPE_CHARACTERS]}…"


def _parses(path: str) -> bool:
    """Ask Node.js, whose word counts: the compiler objects to more than what keeps a program from running."""
    return not Compiler([_NODE, f"{_RUNNER}/typescript/parses.mjs", path], {}).complaints()


_JUDGES: dict[int, Callable[[_Program, _Complaint], Mistake | None]] = {
    2304: _Program.undefined,
    2305: _Program.no_member,
    2307: _Program.no_module,
    2322: _Program.wrong_type,
    2339: _Program.no_property,
    2345: _Program.wrong_type,
    2353: _Program.unknown_argument,
    2488: _Program.not_iterable,
    2551: _Program.no_property,
    2552: _Program.undefined,
    2554: _Program.no_arguments,
    2559: _Program.nothing_in_common,
    2561: _Program.unknown_argument,
    2614: _Program.no_member,
    2724: _Program.no_member,
    2739: _Program.missing_argument,
    2740: _Program.missing_argument,
    2741: _Program.missing_argument,
}

"""Finds what a TypeScript program surely gets wrong, by what the compiler says of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from checking.compiler import NODE, RUNNER, Compiler, parses_as_typescript
from checking.kinds import kinds_of, surely_clash
from checking.mistakes import Mistake, looks_like, no_such_server, no_such_skill, no_such_tool
from checking.spans import Spans
from checking.wrapped import SKILLS, Servers, TypeScriptTool

_SUFFIX = ".ts"
_COMPLAINT = re.compile(r"\S*main\.ts\((\d+),(\d+)\): error TS(\d+): (.*)")
_IMPORT = re.compile(r"""^[ \t]*import\s+(?!type\b)([^'";]+?)\s+from\s*['"]([^'"]+)['"]""", re.MULTILINE)
_DYNAMIC_IMPORT = re.compile(
    r"""\b(?:const|let|var)\s+(\{[^{}]*\}|[\w$]+)\s*=\s*await\s+import\(\s*['"]([^'"]+)['"]\s*\)(?!\s*\.)"""
)
_NAMED = re.compile(r"(?:type\s+)?([\w$]+)(?:\s*(?:\bas\b|:)\s*([\w$]+))?")
_SERVER_PATH = re.compile(r"(?:/workspace|\.)/servers/([\w$-]+)(?:/([\w$-]+?)(?:\.[jt]s)?)?/?")
_SKILL_PATH = re.compile(r"(?:/workspace|\.)/skills(?:/([\w$-]+?)(?:\.[jt]s)?)?/?")
_SERVER_NAMED = re.compile(r"/servers/([\w$-]+)")
_NOT_ASSIGNABLE = re.compile(r"(?:Type|Argument of type) '(.+)' is not assignable to (?:parameter of )?type '(.+)'\.")
_UNKNOWN_ARGUMENT = re.compile(r".*'([^']+)' does not exist in type '(.+?)'\.(?: Did you mean to write '([^']+)'\?)?")
_MISSING = re.compile(r"Property '(.+)' is missing in type '.+' but required in type '(.+)'\.")
_MISSING_SEVERAL = re.compile(r"Type '.+' is missing the following properties from type '(.+)': (.+)")
_NO_PROPERTY = re.compile(r"Property '(.+?)' does not exist on type '(.+)'\.(?: Did you mean '(.+)'\?)?")
_NO_MEMBER = re.compile(r".*has no exported member(?: named)? '(.+?)'.*")
_NO_MODULE = re.compile(r"Cannot find module '(.+)' or its .*")
_NO_ELEMENT = re.compile(r"Element implicitly has an 'any' type because .* index type '(Promise<.*>)'\.")
_NOT_ITERABLE = re.compile(r"Type '(Promise<.*>)' .*")
_UNDEFINED = re.compile(r"(?:Cannot find name|No value exists in scope for the shorthand property) '(.+?)'\.(.*)")
_MEANT = re.compile(r" Did you mean '(.+?)'\?")
_NAMESPACE = re.compile(r'typeof import\(".*/servers/([\w$-]+)(?:/index)?"\)')
# Whoever uses these may define names in ways that nobody can foresee.
_MAKES_NAMES = re.compile(r"\b(?:globalThis|global|eval|Function|runInThisContext)\b")
_CHAIN = re.compile(r"""(?:[\w$]+|\)|\]|['"]\]|!)[\w$.?!()[\]'"]*$""")
_ASKS_BEFORE = re.compile(r"(?:!|\b(?:if|while|isArray|Boolean)\s*\(|\btypeof|&&|\|\||\?\?|\bin)\s*\(*\s*$")
_ASKS_AFTER = re.compile(r"\s*(?:\?\?|\|\||&&|\?|[!=]==?|\)\s*\?)")
_LIBRARY = {"discovery", "errors", "content", "output"}
_FIRST_GRAMMAR, _FIRST_SEMANTIC = 1000, 2000
# Names that are declared twice, of which the compiler does not think as grammar.
_DECLARED_TWICE = {2300, 2440, 2451}
_MAX_TYPE_CHARACTERS = 120
# Each takes a look at the whole program.
_MAX_JUDGED = 100


def mistakes_in(workspace: str, said: str) -> Iterator[Mistake]:
    """Yield what is surely wrong, by what the compiler said."""
    path = f"{workspace}/main.ts"
    with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
        code = file.read()
    yield from _Program(code, Servers(workspace), path).read(said.splitlines())


class _Complaint:
    """One error of the compiler, with the lines that explain it further."""

    def __init__(self, line: int, column: int, code: int, text: str) -> None:
        self.line = line
        self.column = column
        self.code = code
        self.text = text
        self.because: list[str] = []

    def says(self, message: str, tool: TypeScriptTool | None = None) -> Mistake:
        return Mistake(self.line, self.column, message, tool.signature if tool else "")


class _Program:
    def __init__(self, code: str, servers: Servers, path: str) -> None:
        self._code = code
        self._servers = servers
        self._path = path
        self._spans = Spans(code)
        self._tools: dict[str, TypeScriptTool] = {}  # by the name that they have in the program
        self._namespaces: dict[str, str] = {}
        self._wrong_imports: dict[str, str] = {}  # by their path
        for clause, imported in _IMPORT.findall(code):
            self._note_import(clause, imported)
        for bound, imported in _DYNAMIC_IMPORT.findall(code):
            self._note_import(bound if bound[0] == "{" else f"* as {bound}", imported)

    def read(self, lines: Sequence[str]) -> Iterator[Mistake]:
        complaints: list[_Complaint] = []
        for line in lines:
            if said := _COMPLAINT.fullmatch(line):
                complaints.append(_Complaint(int(said[1]), int(said[2]), int(said[3]), said[4]))
            elif complaints and line.startswith(" "):
                complaints[-1].because.append(line.strip())
        grammar = [
            each for each in complaints if _FIRST_GRAMMAR <= each.code < _FIRST_SEMANTIC or each.code in _DECLARED_TWICE
        ]
        if grammar and not parses_as_typescript(self._path):
            other = looks_like("Python") if _is_python(self._code) else None
            yield grammar[0].says(other or f"This is not TypeScript: {grammar[0].text}")
            return
        for complaint in [each for each in complaints if each.code in _JUDGES][:_MAX_JUDGED]:
            if (mistake := _JUDGES[complaint.code](self, complaint)) is not None:
                yield mistake

    # --- imports ---

    def _note_import(self, clause: str, path: str) -> None:
        found, skill = _SERVER_PATH.fullmatch(path), _SKILL_PATH.fullmatch(path)
        if skill is not None:
            server, tool = SKILLS, skill[1]
        elif found is None or found[1] in _LIBRARY:
            return
        else:
            server, tool = found[1], found[2]
        tools = self._servers.tools(server, _SUFFIX)
        if server == SKILLS:
            if tool not in (None, "index", *tools):
                self._wrong_imports[path] = no_such_skill(str(tool), tools)
        elif server not in self._servers.names:
            self._wrong_imports[path] = no_such_server(server, self._servers.names)
        elif tool not in (None, "index", *tools):
            self._wrong_imports[path] = no_such_tool(str(tool), server, tools)
        if namespace := re.fullmatch(r"\*\s+as\s+([\w$]+)", clause.strip()):
            self._namespaces[namespace[1]] = server
        for name, local in _NAMED.findall(clause) if "{" in clause else ():
            if name in tools and not self._is_declared(local or name):
                self._tools[local or name] = TypeScriptTool(name, self._servers.source(server, name, _SUFFIX))

    def _is_declared(self, name: str) -> bool:
        """Tell whether a name also stands for something else somewhere."""
        return re.search(rf"\b(?:const|let|var|function|class)\s+{re.escape(name)}\b", self._code) is not None

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
        place = self._place(complaint)
        name = self._spans.tool_with_argument_at(place, self._tool_named)
        if name is None or self._spans.is_caught_by_name(place, "InvalidArguments"):
            return None
        return self._tools[name]

    def _tool_that_promises(self, spelled: str) -> TypeScriptTool | None:
        """Return the tool whose declared result has this type, of those that the program may have imported."""
        if found := next((tool for tool in self._tools.values() if tool.promises(spelled)), None):
            return found
        for server in sorted({*_SERVER_NAMED.findall(self._code)}):
            for name in self._servers.tools(server, _SUFFIX):
                tool = TypeScriptTool(name, self._servers.source(server, name, _SUFFIX))
                if tool.promises(spelled):
                    return tool
        return None

    # --- places: the compiler counts UTF-16 units, and lines that end as in JavaScript ---

    @cached_property
    def _line_begins(self) -> list[int]:
        return [0, *(found.end() for found in re.finditer(r"\r\n|[\n\r\u2028\u2029]", self._code))]

    def _place(self, complaint: _Complaint) -> int:
        if complaint.line > len(self._line_begins):
            return len(self._code)
        begin = self._line_begins[complaint.line - 1]
        units = self._code[begin : begin + complaint.column].encode("utf-16-le", "replace")[: 2 * complaint.column - 2]
        return begin + len(units.decode("utf-16-le", "replace"))

    def _before(self, complaint: _Complaint) -> str:
        return self._code[self._line_begins[complaint.line - 1] : self._place(complaint)]

    def _from(self, complaint: _Complaint, characters: int = 200) -> str:
        place = self._place(complaint)
        return self._code[place : place + characters]

    # --- what the compiler complains of, by its number ---

    def no_module(self, complaint: _Complaint) -> Mistake | None:
        found = _NO_MODULE.fullmatch(complaint.text)
        told = self._wrong_imports.get(found[1]) if found else None
        is_provided_for = self._is_tried(complaint) or re.match(r"""['"][^'"]*['"]\s*\)\s*\.""", self._from(complaint))
        return complaint.says(told) if told and not is_provided_for else None

    def no_member(self, complaint: _Complaint) -> Mistake | None:
        found = _NO_MEMBER.fullmatch(complaint.text)
        path = _SERVER_NAMED.search(complaint.text)
        if not found or not path or path[1] not in self._servers.names or self._is_erased(complaint, found[1]):
            return None
        return complaint.says(no_such_tool(found[1], path[1], self._servers.tools(path[1], _SUFFIX)))

    def no_default(self, complaint: _Complaint) -> Mistake | None:
        path = _SERVER_NAMED.search(complaint.text)
        if path is None or path[1] not in self._servers.names:
            return None
        return complaint.says(f"The server `{path[1]}` has no default export: write `import * as {path[1]} from …`.")

    def unknown_argument(self, complaint: _Complaint) -> Mistake | None:
        tool, found = self._tool_at(complaint), _UNKNOWN_ARGUMENT.fullmatch(complaint.text)
        if tool is None or found is None:
            return None
        if found[2].endswith("[]"):
            name = re.search(r"""([\w$]+)['"]?\s*:\s*\{[^{}]*$""", self._code[: self._place(complaint)])
            subject = f"`{name[1]}` of `{tool.name}`" if name else f"The argument of `{tool.name}`"
            return complaint.says(f"{subject} must be an array, not an object.", tool)
        if not (found[2] in tool.types and found[2].endswith("Input")) and not tool.is_closed_inside:
            return None
        meant = f" Did you mean `{found[3]}`?" if found[3] else ""
        return complaint.says(f"`{tool.name}` has no argument `{found[1]}`.{meant}", tool)

    def missing_argument(self, complaint: _Complaint) -> Mistake | None:
        tool = self._tool_at(complaint)
        written = self._spans.literal_at(self._place(complaint))
        if tool is not None and written.startswith("["):
            return complaint.says(f"The argument of `{tool.name}` must be an object.", tool)
        if tool is None or not written.startswith("{") or "..." in written or re.search(r"[{,]\s*\[", written):
            return None
        if found := _MISSING.fullmatch(complaint.text):
            names, wanted = [found[1]], found[2]
        elif found := _MISSING_SEVERAL.fullmatch(complaint.text):
            names, wanted = found[2].split(", "), found[1]
        else:
            return None
        if wanted not in tool.types and wanted[:1] != "{":
            return None
        needed = " and ".join(f"`{name.strip()}`" for name in names)
        return complaint.says(f"`{tool.name}` needs {needed}.", tool)

    def no_arguments(self, complaint: _Complaint) -> Mistake | None:
        called = re.match(r"[\w$]+", self._from(complaint))
        owner = re.search(r"([\w$]+)\s*\.\s*$", self._before(complaint))
        name = self._tool_named(owner[1] if owner else None, called[0]) if called else None
        caught = self._spans.is_caught_by_name(self._place(complaint), "InvalidArguments")
        if name is not None and not caught and complaint.text.endswith("but got 0."):
            return complaint.says(f"`{self._tools[name].name}` needs arguments.", self._tools[name])
        if (tool := self._tool_at(complaint)) and re.search(r"""\(\s*['"`\d[][^(]*$""", self._before(complaint)):
            return complaint.says(f"`{tool.name}` takes one object.", tool)
        return None

    def wrong_type(self, complaint: _Complaint) -> Mistake | None:
        told = [complaint.text, *complaint.because]
        clashes = [found.groups() for line in told if (found := _NOT_ASSIGNABLE.fullmatch(line))]
        if not clashes:
            return None
        given, wanted = clashes[-1]
        if _is_promise_of_a_tool(given) and kinds_of(wanted) not in (None, frozenset({"promise"})):
            return complaint.says(_AWAIT)
        if given != "string" and self._before(complaint).endswith("JSON.parse(") and not self._is_tried(complaint):
            made = self._tool_that_promises(given)
            return complaint.says("The result is an object already, not JSON text.", made) if made else None
        tool = self._tool_at(complaint)
        if tool is None or not surely_clash(given, wanted) or "..." in self._spans.literal_at(self._place(complaint)):
            return None
        if complaint.text.startswith("Argument") and clashes[0][1] not in tool.types:
            return None
        wanted = "an object" if wanted in tool.types else wanted
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
        if found is None or self._before(complaint).endswith("?.") or self._is_tried(complaint):
            return None
        name, owner, meant = found[1], found[2], found[3]
        suggested = f" Did you mean `{meant}`?" if meant else ""
        if server := _NAMESPACE.fullmatch(owner):
            is_called = re.match(r"[\w$]+\s*\(", self._from(complaint)) and server[1] in self._servers.names
            told = no_such_tool(name, server[1], self._servers.tools(server[1], _SUFFIX))
            return complaint.says(told) if is_called else None
        if owner.startswith("Promise<"):
            is_needed = re.match(r"[\w$]+\s*[.([]", self._from(complaint)) or _is_promise_of_a_tool(owner)
            return complaint.says(_AWAIT) if is_needed and not self._may_be_there(name, complaint) else None
        tool = self._tool_that_promises(owner)
        if tool is None or self._may_be_there(name, complaint):
            return None
        return complaint.says(f"The result has no `{name}`.{suggested}", tool)

    def used_unawaited(self, complaint: _Complaint) -> Mistake | None:
        found = _NOT_ITERABLE.match(complaint.text) or _NO_ELEMENT.match(complaint.text)
        return complaint.says(_AWAIT) if found and _is_promise_of_a_tool(found[1]) else None

    def undefined(self, complaint: _Complaint) -> Mistake | None:
        found = _UNDEFINED.fullmatch(complaint.text)
        if found is None or _MAKES_NAMES.search(self._code) or self._is_tried(complaint):
            return None
        if re.search(rf"\btypeof\s+{re.escape(found[1])}\b", self._code) or self._is_erased(complaint, found[1]):
            return None
        meant = _MEANT.match(found[2])
        return complaint.says(f"`{found[1]}` is not defined.{f' Did you mean `{meant[1]}`?' if meant else ''}")

    # --- where a complaint stands ---

    def _is_tried(self, complaint: _Complaint) -> bool:
        return self._spans.is_tried(self._place(complaint))

    def _may_be_there(self, name: str, complaint: _Complaint) -> bool:
        """Tell whether the program itself gives an object this property, or asks whether it has it."""
        escaped = re.escape(name)
        if "Object.assign" in self._code or "defineProperty" in self._code:
            return True
        if re.search(
            rf"""['"`]{escaped}['"`]\s*(?:in\b|\]\s*=(?!=))|hasOwn\w*\([^)]*['"`]{escaped}['"`]""", self._code
        ):
            return True
        for found in re.finditer(rf"\.\s*{escaped}\b", self._code):
            before, after = (
                self._code[max(0, found.start() - 200) : found.start()],
                self._code[found.end() : found.end() + 40],
            )
            chain = _CHAIN.search(before)
            asked = _ASKS_BEFORE.search(before[: chain.start()] if chain else before) or _ASKS_AFTER.match(after)
            if asked or re.match(r"\s*(?:\?\?|\|\||&&|[-+*/])?=(?![=>])", after):
                return True
        # Taken out of the result with a default, as in `const { rows = [] } = result`.
        return re.match(rf"{escaped}\s*(?::\s*[\w$]+\s*)?=(?![=>])", self._from(complaint)) is not None

    def _is_erased(self, complaint: _Complaint, name: str) -> bool:
        """Tell whether what stands there is a type, which does not exist when the program runs."""
        kind, javascript = self._javascript
        if kind == "placed":
            place = self._place(complaint)
            return javascript[place : place + len(name)] != name
        return kind != "translated" or re.search(rf"(?<![\w$.]){re.escape(name)}(?![\w$])", javascript) is None

    @cached_property
    def _javascript(self) -> tuple[str, str]:
        kind, _, text = Compiler([NODE, f"{RUNNER}/checking/erased.mjs", self._path], {}).said().partition("\n")
        return kind, text.removeprefix("\ufeff")

    def _property_at(self, complaint: _Complaint) -> str | None:
        found = re.match(r"""['"]?([\w$]+)['"]?\s*[:,}]""", self._from(complaint))
        return found[1] if found else None


_AWAIT = "This is a Promise, not its result: write `await` before the call."


def _is_promise_of_a_tool(spelled: str) -> bool:
    return re.fullmatch(r"Promise<(?:\w+(?:Output|Observed)\w*(?:\[\])?|unknown)>", spelled) is not None


def _brief(spelled: str) -> str:
    return spelled if len(spelled) <= _MAX_TYPE_CHARACTERS else f"{spelled[:_MAX_TYPE_CHARACTERS]}…"


def _is_python(code: str) -> bool:
    import ast

    try:
        compile(code, "main.py", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True


_JUDGES: dict[int, Callable[[_Program, _Complaint], Mistake | None]] = {
    1192: _Program.no_default,
    2304: _Program.undefined,
    2305: _Program.no_member,
    2307: _Program.no_module,
    2322: _Program.wrong_type,
    2339: _Program.no_property,
    2345: _Program.wrong_type,
    2353: _Program.unknown_argument,
    2488: _Program.used_unawaited,
    2551: _Program.no_property,
    2552: _Program.undefined,
    2554: _Program.no_arguments,
    2559: _Program.nothing_in_common,
    2561: _Program.unknown_argument,
    2581: _Program.undefined,
    2582: _Program.undefined,
    2584: _Program.undefined,
    2592: _Program.undefined,
    2593: _Program.undefined,
    2614: _Program.no_member,
    2724: _Program.no_member,
    2739: _Program.missing_argument,
    2740: _Program.missing_argument,
    2741: _Program.missing_argument,
    7053: _Program.used_unawaited,
    18004: _Program.undefined,
}

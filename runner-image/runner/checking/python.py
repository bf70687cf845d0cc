"""Finds what a Python program surely gets wrong: by its syntax tree, and by what ty says of it."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from checking.compiler import Compiler
from checking.kinds import surely_clash
from checking.mistakes import Mistake, no_such_server, no_such_tool, suggestion
from checking.wrapped import Servers

_SUFFIX = ".py"
_TY = os.environ.get("CODE_EXECUTOR_TY", "/opt/check/ty")
_COMPLAINT = re.compile(r".*?main\.py:(\d+):(\d+): error\[([\w-]+)\] (.*)")
_UNDEFINED = re.compile(r"Name `(\w+)` used when not defined")
_WRONG_TYPE = re.compile(r"Argument to function `\w+` is incorrect: Expected `(.+)`, found `(.+)`")
_NO_KEY = re.compile(r'Unknown key "(.+)" for TypedDict `(\w+)`(?: - did you mean "(.+)"\?)?')
_NO_ATTRIBUTE = re.compile(r"Object of type `(\w+)` has no attribute `(\w+)`")
# Observed results are called otherwise: they are only what was seen so far.
_PROMISED = re.compile(r"\w+Output\w*")
# Whoever uses these may define names in ways that nobody can foresee.
_MAKES_NAMES = {"exec", "eval", "globals", "locals", "vars", "setattr", "__builtins__"}
# Not in the workspace: what a program has besides the standard library is of no use here, and slow to read.
_NO_ENVIRONMENT = "/nonexistent"

Place = tuple[int, int]


def mistakes_in(workspace: str) -> Iterator[Mistake]:
    path = f"{workspace}/main.py"
    command = [_TY, "check", "--output-format", "concise", "--color", "never", "--no-progress"]
    command += ["--python-version", f"3.{sys.version_info.minor}", "--project", workspace, path]
    try:
        ty = Compiler(command, {"TY_MAX_PARALLELISM": "1", "HOME": workspace})
    except OSError:
        ty = None
    with open(path, "rb") as file:
        code = file.read()
    try:
        tree = compile(code, path, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except SyntaxError as error:
        yield Mistake(error.lineno or 1, error.offset or 1, f"This is not Python: {error.msg}.")
        return
    program = _Program(tree, Servers(workspace))
    yield from program.mistakes()
    if ty is not None:
        yield from program.read(ty.complaints())


class _Tool:
    """A tool as its wrapper describes it."""

    def __init__(self, name: str, source: str) -> None:
        self.name = name
        self.signature = ""
        self.rule: Mapping[str, Any] = {}
        self.aliases: Mapping[str, str] = {}
        for node in ast.parse(source).body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                told = {keyword.arg: ast.literal_eval(keyword.value) for keyword in node.value.keywords}
                self.signature, self.rule, self.aliases = told["signature"], told["rule"], told["aliases"]

    @property
    def arguments(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.rule.get("properties", {})
        return found

    def mistake(self, place: Place, message: str) -> Mistake:
        return Mistake(*place, message, self.signature)


class _Program:
    def __init__(self, tree: ast.Module, servers: Servers) -> None:
        self._tree = tree
        self._servers = servers
        self._parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        self._known: dict[tuple[str, str], _Tool | None] = {}
        self._imports: list[tuple[ast.stmt, str, str | None, str]] = []  # statement, server, tool, local name
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom | ast.Import):
                self._imports += self._imported_by(node)
        self._names = self._names_bound_once()
        self._calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]

    # --- by the syntax tree ---

    def mistakes(self) -> Iterator[Mistake]:
        for statement, server, tool, _ in self._imports:
            if not self._is_tried(statement):
                yield from self._wrong_import(statement, server, tool)
        for call in self._calls:
            if (tool_called := self._tool_called_by(call)) is not None:
                yield from self._wrong_arguments(call, tool_called)
        yield from self._missing_awaits()

    def _imported_by(self, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[ast.stmt, str, str | None, str]]:
        for alias in node.names:
            local = alias.asname or alias.name
            path = [*(node.module or "").split("."), alias.name] if isinstance(node, ast.ImportFrom) else [""]
            if isinstance(node, ast.Import):
                path = alias.name.split(".")
            elif node.level or alias.name == "*":
                continue
            if path[0] != "servers" or len(path) < 2 or path[1] in self._library:
                continue
            yield node, path[1], path[2] if len(path) > 2 else None, local

    @property
    def _library(self) -> set[str]:
        return {"discovery", "errors", "content", "output"} | {
            name for name in ("skills",) if name not in self._servers.names
        }

    def _wrong_import(self, statement: ast.stmt, server: str, tool: str | None) -> Iterator[Mistake]:
        line, column = statement.lineno, statement.col_offset + 1
        if server not in self._servers.names:
            yield Mistake(line, column, no_such_server(server, self._servers.names))
        elif tool is not None and tool not in (tools := self._servers.tools(server, _SUFFIX)):
            yield Mistake(line, column, no_such_tool(tool, server, tools))

    def _names_bound_once(self) -> dict[str, tuple[str, str | None]]:
        """Return what imports from `servers` stand for, without the names that the program also uses otherwise."""
        bound: dict[str, int] = {}
        for node in ast.walk(self._tree):
            for name in _names_bound_by(node):
                bound[name] = bound.get(name, 0) + 1
        return {local: (server, tool) for _, server, tool, local in self._imports if bound.get(local, 0) == 1}

    def _tool_called_by(self, call: ast.Call) -> _Tool | None:
        match call.func:
            case ast.Name(id=name) if (found := self._names.get(name)) and found[1] is not None:
                return self._tool(found[0], found[1])
            case ast.Attribute(value=ast.Name(id=name), attr=tool) if (found := self._names.get(name)) and not found[1]:
                return self._tool(found[0], tool)
        return None

    def _tool(self, server: str, name: str) -> _Tool | None:
        if (server, name) not in self._known:
            source = self._servers.source(server, name, _SUFFIX)
            try:
                self._known[server, name] = _Tool(name, source) if source else None
            except (KeyError, SyntaxError, ValueError):
                self._known[server, name] = None
        return self._known[server, name]

    def _wrong_arguments(self, call: ast.Call, tool: _Tool) -> Iterator[Mistake]:
        given: dict[str, ast.expr] = {}
        complete = True
        for argument in call.args:
            if not isinstance(argument, ast.Dict):
                complete = False
                if len(call.args) > 1 or isinstance(argument, ast.Constant | ast.List | ast.JoinedStr):
                    message = f"`{tool.name}` takes keyword arguments or one dict."
                    yield tool.mistake((argument.lineno, argument.col_offset + 1), message)
                    return
                continue
            for key, value in zip(argument.keys, argument.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    given[key.value] = value
                else:
                    complete = False
        for keyword in call.keywords:
            if keyword.arg is None:
                complete = False
            else:
                given[tool.aliases.get(keyword.arg, keyword.arg)] = keyword.value
        is_open = tool.rule.get("additionalProperties", not tool.arguments) is True
        unknown = False
        for name, value in given.items():
            place = value.lineno, value.col_offset + 1
            if name not in tool.arguments:
                if not is_open:
                    unknown = True
                    message = f"`{tool.name}` has no argument `{name}`.{suggestion(name, tool.arguments)}"
                    yield tool.mistake(place, message)
            else:
                yield from self._wrong_value(tool, name, value, place)
        missing = [name for name in tool.rule.get("required", ()) if name not in given]
        if complete and missing and not unknown:
            message = f"`{tool.name}` needs {' and '.join(f'`{name}`' for name in missing)}."
            yield tool.mistake((call.lineno, call.col_offset + 1), message)

    def _wrong_value(self, tool: _Tool, name: str, value: ast.expr, place: Place) -> Iterator[Mistake]:
        """Judge a value that stands in the program as the client library would when the call is made."""
        try:
            written = ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return
        if written is None:
            return  # the client library takes it for an argument that is left out
        for problem in _problems(tool.arguments[name], written, name):
            yield tool.mistake(place, problem)

    def _missing_awaits(self) -> Iterator[Mistake]:
        for call in self._calls:
            tool = self._tool_called_by(call)
            if tool is None or not self._runs_in_event_loop(call):
                continue
            message = f"In async code the call must be awaited: `await {tool.name}(…)`."
            parent = self._parents[call]
            if self._needs_the_value(call):
                yield Mistake(call.lineno, call.col_offset + 1, message)
            elif isinstance(parent, ast.Assign) and len(parent.targets) == 1:
                uses = self._uses_of(parent.targets[0], call)
                if uses and all(map(self._needs_the_value, uses)):
                    yield Mistake(call.lineno, call.col_offset + 1, message)

    def _runs_in_event_loop(self, node: ast.AST) -> bool:
        scope = self._scope_of(node)
        if not isinstance(scope, ast.Module):
            return isinstance(scope, ast.AsyncFunctionDef)
        return any(
            isinstance(each, ast.Await | ast.AsyncFor | ast.AsyncWith) and isinstance(self._scope_of(each), ast.Module)
            for each in ast.walk(self._tree)
        )

    def _scope_of(self, node: ast.AST) -> ast.AST:
        while node in self._parents:
            node = self._parents[node]
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
                return node
        return node

    def _needs_the_value(self, node: ast.expr) -> bool:
        match self._parents[node]:
            case ast.Subscript(value=value):
                return value is node
            case ast.Attribute(value=value, attr=attribute):
                return value is node and attribute not in {"send", "throw", "close"}
            case ast.For(iter=iterated) | ast.comprehension(iter=iterated):
                return iterated is node
        return False

    def _uses_of(self, target: ast.expr, call: ast.Call) -> list[ast.expr]:
        """Return where a variable is read, if the call is all that it ever stands for."""
        if not isinstance(target, ast.Name):
            return []
        same = [node for node in ast.walk(self._tree) if isinstance(node, ast.Name) and node.id == target.id]
        bound = sum(name == target.id for node in ast.walk(self._tree) for name in _names_bound_by(node))
        if bound != 1 or {self._scope_of(node) for node in same} != {self._scope_of(call)}:
            return []
        return [node for node in same if node is not target]

    def _is_tried(self, node: ast.AST) -> bool:
        """Tell whether its failure is provided for."""
        while node in self._parents:
            child, node = node, self._parents[node]
            if isinstance(node, ast.Try) and child in node.body and node.handlers:
                return True
        return False

    # --- by what ty says ---

    def read(self, complaints: Sequence[str]) -> Iterator[Mistake]:
        makes_names = any(isinstance(node, ast.Name) and node.id in _MAKES_NAMES for node in ast.walk(self._tree))
        for complaint in complaints:
            if not (said := _COMPLAINT.fullmatch(complaint)):
                continue
            place, rule, text = (int(said[1]), int(said[2])), said[3], said[4]
            node = self._node_at(place)
            if rule == "unresolved-reference" and (found := _UNDEFINED.fullmatch(text)) and not makes_names:
                if node is not None and not self._is_annotation(node) and not self._is_tried(node):
                    yield Mistake(*place, f"`{found[1]}` is not defined.")
            elif rule == "invalid-argument-type" and (found := _WRONG_TYPE.fullmatch(text)):
                yield from self._wrong_type(place, wanted=found[1], given=found[2])
            elif node is None or self._is_tried(node):
                continue
            elif (found := _NO_KEY.fullmatch(text)) and _PROMISED.fullmatch(found[2]):
                meant = f' Did you mean ["{found[3]}"]?' if found[3] else ""
                yield Mistake(*place, f'The result has no ["{found[1]}"].{meant}')
            elif (found := _NO_ATTRIBUTE.fullmatch(text)) and _PROMISED.fullmatch(found[1]):
                yield Mistake(*place, f'The result is a dict: write ["{found[2]}"] instead of .{found[2]}.')

    def _wrong_type(self, place: Place, wanted: str, given: str) -> Iterator[Mistake]:
        """Report an argument of a tool; whatever else is passed around is the program's own affair."""
        for call in self._calls:
            tool = self._tool_called_by(call)
            if tool is None or any(keyword.arg is None for keyword in call.keywords):
                continue
            for keyword in call.keywords:
                begins = keyword.lineno, keyword.col_offset + 1
                if begins == place and surely_clash(given, wanted):
                    if isinstance(keyword.value, ast.Constant):
                        return  # told in the client library's words
                    name = tool.aliases.get(str(keyword.arg), str(keyword.arg))
                    yield tool.mistake(place, f"`{name}` must be {_brief(wanted)}, not {_brief(given)}.")

    def _node_at(self, place: Place) -> ast.AST | None:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.expr) and (node.lineno, node.col_offset + 1) == place:
                return node
        return None

    def _is_annotation(self, node: ast.AST) -> bool:
        """Annotations need not be evaluated; whether they are depends on where they stand."""
        while node in self._parents:
            child, node = node, self._parents[node]
            match node:
                case ast.AnnAssign(annotation=annotation) | ast.arg(annotation=annotation) if annotation is child:
                    return True
                case ast.FunctionDef(returns=annotation) | ast.AsyncFunctionDef(returns=annotation):
                    return annotation is child
        return False


def _brief(spelled: str) -> str:
    """Spell a type as people do: ty calls the type of 5 `Literal[5]`."""
    return re.sub(r"Literal\[([^][]*)\]", r"\1", spelled)


def _names_bound_by(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.arg(arg=name):
            yield name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            yield from (alias.asname or alias.name for alias in aliases)


def _problems(rule: Mapping[str, Any], value: object, name: str) -> list[str]:
    return _arguments().problems(rule, value, name)  # type: ignore[no-any-return]


def _arguments() -> Any:
    """Load how the client library judges arguments, without the rest of it."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("_arguments", "servers/_arguments.py")
    if spec is None or spec.loader is None:
        raise ImportError("the client library is not in the workspace")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

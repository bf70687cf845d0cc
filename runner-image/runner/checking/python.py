"""Finds what a Python program surely gets wrong: by its syntax tree, and by what ty says of it."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from checking.compiler import modules_in, packages, parses_as_typescript, ty
from checking.kinds import surely_clash
from checking.mistakes import Mistake, looks_like, no_such_server, no_such_skill, no_such_tool, suggestion
from checking.tree import Place, Tree
from checking.wrapped import OBSERVED, SKILLS, Servers

_SUFFIX = ".py"
_COMPLAINT = re.compile(r".*?main\.py:(\d+):(\d+): error\[([\w-]+)\] (.*)")
_UNDEFINED = re.compile(r"Name `(\w+)` used when not defined")
_WRONG_TYPE = re.compile(r"Argument to function `(\w+)` is incorrect: Expected `(.+)`, found `(.+)`")
_NO_KEY = re.compile(r'Unknown key "(.+)" for TypedDict `(\w+)`(?: - did you mean "(.+)"\?)?')
_NO_ATTRIBUTE = re.compile(r"Object of type `(\w+)` has no attribute `(\w+)`")
_FIELD = re.compile(r"""\n    "?([^\s"#]+)"?: """)
_MAY_HAVE_MORE = "# Further keys are allowed."
# Whoever uses these may define names in ways that nobody can foresee.
_MAKES_NAMES = {"exec", "eval", "globals", "locals", "vars", "dir", "setattr", "builtins", "__builtins__", "__dict__"}
# Whoever uses these may have modules that are not there yet.
_MAKE_MODULES = {"open", "Path", "sys", "os", "importlib", "types", "subprocess", "shutil", "write_file"}
_MAX_JUDGED = 200
# What a call has that was not awaited yet.
_OF_COROUTINES = {"close", "send", "throw"}
_NEED_THEIR_VALUE = {
    "len",
    "list",
    "sorted",
    "sum",
    "min",
    "max",
    "set",
    "tuple",
    "dict",
    "enumerate",
    "loads",
    "DataFrame",
}


def mistakes_in(workspace: str, code: bytes, said: str | None) -> Iterator[Mistake]:
    """Yield what is surely wrong, also by what ty said; ask it if it was not asked."""
    path = f"{workspace}/main.py"
    try:
        root = compile(code, path, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        compile(root, path, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)  # `await` in a plain function
    except (SyntaxError, ValueError) as error:
        place = (getattr(error, "lineno", None) or 1, getattr(error, "offset", None) or 1)
        is_other = parses_as_typescript(path)
        version = f"3.{sys.version_info.minor}"
        told = (
            looks_like("TypeScript") if is_other else f"This is not Python {version}: {getattr(error, 'msg', error)}."
        )
        if "f-string" in told and not is_other:
            told += " Inside the braces of an f-string use other quotes than outside, and no backslash."
        yield Mistake(*place, told)
        return
    except (MemoryError, RecursionError):
        return
    program = _Program(Tree(root, code), Servers(workspace))
    with _seen_by_ty(workspace, path, program.without_awaits()) as seen:
        asked = ty(workspace, seen) if said is None else None
        yield from program.mistakes()
        yield from program.read((asked.said() if asked else said or "").splitlines()[:_MAX_JUDGED])


@contextmanager
def _seen_by_ty(workspace: str, path: str, instead: bytes | None) -> Iterator[str]:
    """Write what ty is to take for the program, if it is not the program itself."""
    if instead is None:
        yield path
        return
    folder = f"{os.environ.get('TMPDIR', workspace)}/check-{os.getpid()}"
    os.mkdir(folder, 0o700)
    with open(f"{folder}/main.py", "xb") as file:
        file.write(instead)
    try:
        yield file.name
    finally:
        os.unlink(file.name)
        os.rmdir(folder)


class _Tool:
    """A tool as its wrapper describes it."""

    def __init__(self, name: str, source: str) -> None:
        self.name = name
        self.source = source
        self.signature = ""
        self.rule: Mapping[str, Any] = {}
        self.aliases: Mapping[str, str] = {}
        # The rest of the module takes longer to parse.
        for node in ast.parse(source[source.index("\n_tool = ") :]).body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                told = {keyword.arg: ast.literal_eval(keyword.value) for keyword in node.value.keywords}
                self.signature, self.rule, self.aliases = told["signature"], told["rule"], told["aliases"]

    @property
    def arguments(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.rule.get("properties", {})
        return found

    def keys_promised(self, type_: str) -> list[str] | None:
        """Return the keys of a type of its result; None if it is no such type, or may have others."""
        found = re.search(rf"\n(.*)\n(?:class {type_}\(TypedDict\):|{type_} = TypedDict\(.*)\n", self.source)
        if not found or "Output" not in type_ or OBSERVED in self.source or found[1] == _MAY_HAVE_MORE:
            return None
        return _FIELD.findall(self.source[found.end() - 1 :].partition("\n\n")[0])

    def mistake(self, place: Place, message: str) -> Mistake:
        return Mistake(*place, message, self.signature)


class _Program:
    def __init__(self, tree: Tree, servers: Servers) -> None:
        self._tree = tree
        self._servers = servers
        self._known: dict[tuple[str, str], _Tool | None] = {}
        self._imports: list[tuple[ast.stmt, str, str | None, str]] = []  # statement, server, tool, local name
        for node in tree.nodes:
            if isinstance(node, ast.ImportFrom | ast.Import):
                self._imports += self._imported_by(node)
        # Without the names that the program also uses otherwise.
        self._names = {
            local: (server, tool) for _, server, tool, local in self._imports if tree.times_bound[local] == 1
        }

    # --- by the syntax tree ---

    def mistakes(self) -> Iterator[Mistake]:
        for statement, server, tool, _ in self._imports:
            if not self._tree.is_provided_for(statement, "ImportError", "ModuleNotFoundError"):
                yield from self._wrong_import(statement, server, tool)
        for call in self._tree.calls:
            called = self._tool_called_by(call)
            if called is None:
                yield from self._wrong_attribute(call)
            elif not self._tree.is_caught(call, "InvalidArguments"):
                yield from self._wrong_arguments(call, called)
        yield from self._missing_awaits()
        yield from self._missing_packages()

    def _imported_by(self, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[ast.stmt, str, str | None, str]]:
        for alias in node.names:
            if isinstance(node, ast.Import):
                path = alias.name.split(".")
            elif node.level or alias.name == "*":
                continue
            else:
                path = [*(node.module or "").split("."), alias.name]
            if path[0] == SKILLS and len(path) > 1:
                if not path[1].startswith("_"):
                    yield node, SKILLS, path[1], alias.asname or alias.name
                continue
            if path[0] != "servers" or len(path) < 2 or path[1] in self._library:
                continue
            if path[1].startswith("_") and path[1] not in self._servers.names:
                continue  # a part of the client library
            tool = path[2] if len(path) > 2 and not path[2].startswith("_") else None
            is_a_type_of_the_tool = len(path) > 3 and path[3] != path[2]
            yield node, path[1], tool, "" if is_a_type_of_the_tool else alias.asname or alias.name

    @cached_property
    def _library(self) -> set[str]:
        return {"discovery", "errors", "content", "output"} | {
            name for name in ("skills",) if name not in self._servers.names
        }

    def _wrong_import(self, statement: ast.stmt, server: str, tool: str | None) -> Iterator[Mistake]:
        place = self._tree.place_of(statement)
        if server == SKILLS:
            if tool is not None and tool not in (skills := self._servers.tools(SKILLS, _SUFFIX)):
                yield Mistake(*place, no_such_skill(tool, skills))
        elif server not in self._servers.names:
            yield Mistake(*place, no_such_server(server, self._servers.names))
        elif tool is not None and tool not in (tools := self._servers.tools(server, _SUFFIX)):
            yield Mistake(*place, no_such_tool(tool, server, tools))

    def _missing_packages(self) -> Iterator[Mistake]:
        """Report imports that fail when they are reached, maybe after calls; a program may also make modules itself."""
        installed = packages()
        if not installed or any(self._tree.uses[name] for name in _MAKE_MODULES):
            return
        there = {*sys.stdlib_module_names, *installed, *modules_in(self._servers.workspace), SKILLS}
        for node in self._tree.nodes:
            match node:
                case ast.Import(names=aliases):
                    names = [alias.name for alias in aliases]
                case ast.ImportFrom(module=str(module), level=0):
                    names = [module]
                case _:
                    continue
            missing = [name for name in names if name.partition(".")[0] not in there]
            if missing and not self._tree.is_provided_for(node, "ImportError", "ModuleNotFoundError"):
                message = f"There is no package `{missing[0]}` in the sandbox, and none can be installed."
                yield Mistake(*self._tree.place_of(node), message)

    def _wrong_attribute(self, call: ast.Call) -> Iterator[Mistake]:
        """Report a tool that a server does not have, as in `filesystem.readFile(…)`."""
        match call.func:
            case ast.Attribute(value=ast.Name(id=local), attr=tool) if (found := self._names.get(local)) and not found[
                1
            ]:
                tools = self._servers.tools(found[0], _SUFFIX)
                is_asked_for = self._tree.uses["hasattr"] or self._tree.is_provided_for(call, "AttributeError")
                if tools and tool not in tools and not tool.startswith("_") and not is_asked_for:
                    yield Mistake(*self._tree.place_of(call), no_such_tool(tool, found[0], tools))

    def without_awaits(self) -> bytes | None:
        """Return the program with blanks for the `await` of each tool call, as if it were not async; None if it is not.

        To ty a call gives its result, since in sync code it does; awaited it could be anything.
        """
        lines = None
        for call in self._tree.calls:
            awaiting = self._tree.parents[call]
            if not isinstance(awaiting, ast.Await) or isinstance(self._tree.parents[awaiting], ast.Expr):
                continue
            lines = self._tree.lines.copy() if lines is None else lines
            line, begin = lines[awaiting.lineno - 1], awaiting.col_offset
            # Of what is inserted into a string, the parser may tell another place.
            if self._tool_called_by(call) is not None and line.startswith(b"await", begin):
                lines[awaiting.lineno - 1] = line[:begin] + b"     " + line[begin + 5 :]
        return None if lines is None else b"\n".join(lines)

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
            if isinstance(argument, ast.Dict):
                for key, value in zip(argument.keys, argument.values, strict=True):
                    if isinstance(key, ast.Constant) and isinstance(key.value, str):
                        given[key.value] = value
                    else:
                        complete = False
                continue
            complete = False
            if self._is_no_dict(argument) or (
                len(call.args) > 1 and not any(isinstance(each, ast.Starred) for each in call.args)
            ):
                message = f"`{tool.name}` takes keyword arguments or one dict."
                yield tool.mistake(self._tree.place_of(argument), message)
                return
        for keyword in call.keywords:
            if keyword.arg is None:
                complete = False
            else:
                given[tool.aliases.get(keyword.arg, keyword.arg)] = keyword.value
        is_open = tool.rule.get("additionalProperties", not tool.arguments) is True
        unknown = False
        for name, value in given.items():
            place = self._tree.place_of(value)
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
            yield tool.mistake(self._tree.place_of(call), message)

    def _is_no_dict(self, argument: ast.expr) -> bool:
        if isinstance(argument, ast.Name) and self._tree.times_bound[argument.id] == 1:
            assigned = (
                self._tree.parents[use] for use in self._tree.uses[argument.id] if isinstance(use.ctx, ast.Store)
            )
            match next(assigned, None):
                case ast.Assign(targets=[ast.Name()], value=value):
                    argument = value
        is_none = isinstance(argument, ast.Constant) and argument.value is None
        return isinstance(argument, ast.Constant | ast.List | ast.JoinedStr) and not is_none

    def _wrong_value(self, tool: _Tool, name: str, value: ast.expr, place: Place) -> Iterator[Mistake]:
        """Judge a value that stands in the program as the client library would when the call is made."""
        try:
            written = ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return
        if written is None and name not in tool.rule.get("required", ()):
            return  # the client library takes it for an argument that is left out
        for problem in _problems(tool.arguments[name], written, name):
            yield tool.mistake(place, problem)

    def _missing_awaits(self) -> Iterator[Mistake]:
        for call in self._tree.calls:
            tool = self._tool_called_by(call)
            if tool is None or not self._runs_in_event_loop(call):
                continue
            message = f"In async code the call must be awaited: `await {tool.name}(…)`."
            parent = self._tree.parents[call]
            if self._needs_the_value(call):
                yield Mistake(*self._tree.place_of(call), message)
            elif isinstance(parent, ast.Assign) and len(parent.targets) == 1:
                uses = self._uses_of(parent.targets[0], call)
                if uses and all(map(self._needs_the_value, uses)):
                    yield Mistake(*self._tree.place_of(call), message)

    def _runs_in_event_loop(self, node: ast.AST) -> bool:
        scope = self._tree.scope_of(node)
        if isinstance(scope, ast.Module):
            return self._tree.awaits_at_top_level
        return isinstance(scope, ast.AsyncFunctionDef)

    def _needs_the_value(self, node: ast.expr) -> bool:
        match self._tree.parents[node]:
            case ast.Subscript(value=value):
                return value is node
            case ast.Attribute(value=value, attr=attribute):
                return value is node and attribute not in _OF_COROUTINES
            case ast.For(iter=iterated) | ast.comprehension(iter=iterated):
                return iterated is node
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[first, *_]):
                return first is node and name in _NEED_THEIR_VALUE and self._tree.times_bound[name] == 0
        return False

    def _uses_of(self, target: ast.expr, call: ast.Call) -> list[ast.Name]:
        """Return where a variable is read, if the call is all that it ever stands for."""
        if not isinstance(target, ast.Name) or self._tree.times_bound[target.id] != 1:
            return []
        same = self._tree.uses[target.id]
        if {self._tree.scope_of(node) for node in same} != {self._tree.scope_of(call)}:
            return []
        return [node for node in same if node is not target]

    # --- by what ty says ---

    def read(self, complaints: Sequence[str]) -> Iterator[Mistake]:
        for complaint in complaints:
            said = _COMPLAINT.fullmatch(complaint)
            place = (int(said[1]), int(said[2])) if said else (0, 0)
            nodes = self._tree.nodes_at(place)
            if said is None or not nodes:
                continue
            rule, text = said[3], said[4]
            if rule == "unresolved-reference" and (found := _UNDEFINED.fullmatch(text)):
                yield from self._undefined(place, nodes[-1], found[1])
            elif rule == "invalid-argument-type" and (found := _WRONG_TYPE.fullmatch(text)):
                yield from self._wrong_type(place, nodes, wanted=found[2], given=found[3])
                yield from self._read_as_text(place, nodes[-1], found[1], given=found[3])
            elif found := _NO_KEY.fullmatch(text):
                yield from self._no_key(place, nodes[-1], found[1], found[2])
            elif found := _NO_ATTRIBUTE.fullmatch(text):
                yield from self._no_attribute(place, nodes[-1], found[1], found[2])

    def _undefined(self, place: Place, node: ast.AST, name: str) -> Iterator[Mistake]:
        if self._makes_names or self._tree.is_annotation(node) or self._tree.is_provided_for(node, "NameError"):
            return
        yield Mistake(*place, f"`{name}` is not defined.")

    @cached_property
    def _makes_names(self) -> bool:
        if any(self._tree.uses[name] for name in _MAKES_NAMES):
            return True
        for node in self._tree.nodes:
            match node:
                case ast.Attribute(attr="__dict__") | ast.ImportFrom(names=[ast.alias(name="*")]):
                    return True
        return False

    def _wrong_type(self, place: Place, nodes: Sequence[ast.AST], wanted: str, given: str) -> Iterator[Mistake]:
        """Report an argument of a tool; whatever else is passed around is the program's own affair."""
        for keyword in nodes:
            call = self._tree.parents.get(keyword)
            if not isinstance(keyword, ast.keyword) or not isinstance(call, ast.Call):
                continue
            tool = self._tool_called_by(call)
            if tool is None or any(each.arg is None for each in call.keywords) or _is_written_out(keyword.value):
                continue  # what is written out is judged in the client library's words
            if surely_clash(given, wanted) and not self._tree.is_caught(call, "InvalidArguments"):
                name = tool.aliases.get(str(keyword.arg), str(keyword.arg))
                yield tool.mistake(place, f"`{name}` must be {_brief(wanted)}, not {_brief(given)}.")

    def _read_as_text(self, place: Place, node: ast.AST, function: str, given: str) -> Iterator[Mistake]:
        tool, keys = self._promise_of(given) if function == "loads" else (None, [])
        if tool is not None and not self._tree.is_provided_for(node, "TypeError", "ValueError"):
            told = "The result is a dict already, not JSON text."
            yield tool.mistake(place, f'{told} Its text is in ["{keys[0]}"].' if len(keys) == 1 else told)

    def _no_key(self, place: Place, node: ast.AST, key: str, type_: str) -> Iterator[Mistake]:
        subscript = self._tree.parents.get(node)
        is_read = isinstance(subscript, ast.Subscript) and isinstance(subscript.ctx, ast.Load)
        tool, keys = self._promise_of(type_)
        if tool is None or not is_read or key in self._keys_asked_for:
            return
        if not self._tree.is_provided_for(node, "KeyError", "LookupError"):
            yield tool.mistake(place, f'The result has no ["{key}"].{suggestion(key, keys)}')

    def _no_attribute(self, place: Place, node: ast.AST, type_: str, name: str) -> Iterator[Mistake]:
        tool, keys = self._promise_of(type_)
        is_asked_for = self._tree.uses["hasattr"] or self._tree.is_provided_for(node, "AttributeError")
        if tool is None or name in _OF_COROUTINES or is_asked_for:
            return
        told = (
            f'write ["{name}"] instead of .{name}.' if name in keys else f"it has no `{name}`.{suggestion(name, keys)}"
        )
        yield tool.mistake(place, f"The result is a dict: {told}")

    def _promise_of(self, type_: str) -> tuple[_Tool | None, list[str]]:
        """Return the tool that declares the type of its result, and its keys."""
        for server in sorted({server for _, server, _, _ in self._imports}):
            for name in self._servers.tools(server, _SUFFIX):
                if type_ not in self._servers.source(server, name, _SUFFIX):
                    continue
                tool = self._tool(server, name)
                if tool is not None and (keys := tool.keys_promised(type_)) is not None:
                    return tool, keys
        return None, []

    @cached_property
    def _keys_asked_for(self) -> set[str]:
        """The keys that the program itself sets, or asks for before it reads them."""
        found: set[object] = set()
        for node in self._tree.nodes:
            match node:
                case ast.Compare(left=ast.Constant(value=key), ops=[ast.In() | ast.NotIn(), *_]):
                    found.add(key)
                case ast.Subscript(slice=ast.Constant(value=key), ctx=ast.Store() | ast.Del()):
                    found.add(key)
                case ast.Call(
                    func=ast.Attribute(attr="get" | "setdefault" | "pop"), args=[ast.Constant(value=key), *_]
                ):
                    found.add(key)
                case ast.Call(func=ast.Attribute(attr="update"), args=arguments, keywords=keywords):
                    found.update(keyword.arg for keyword in keywords)
                    found.update(
                        key.value
                        for each in arguments
                        if isinstance(each, ast.Dict)
                        for key in each.keys
                        if isinstance(key, ast.Constant)
                    )
        return {key for key in found if isinstance(key, str)}


def _is_written_out(value: ast.expr) -> bool:
    try:
        ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def _brief(spelled: str) -> str:
    """Spell a type as people do: ty calls the type of 5 `Literal[5]`."""
    return re.sub(r"Literal\[([^][]*)\]", r"\1", spelled)


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

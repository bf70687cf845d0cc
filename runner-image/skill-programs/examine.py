"""Tells what a skill's Python code is, without running it: a function of its input, or a program to be made one."""

from __future__ import annotations

import ast
import builtins
import io
import json
import math
import os
import sys
import tokenize
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

Schema = dict[str, Any]
Import = tuple[str, str | None]

REQUEST = os.environ.get("SKILL_REQUEST", "/workspace/in/request.json")
INDENT = b"    "
MAX_PARTS = 1000  # of a schema, whose aliases may double each other
CLIENT_LIBRARY = frozenset({"discovery", "errors", "content", "output"})

MUST_PRINT = (
    "The program must end with print(VALUE): what it prints last becomes the result. A function that takes the input "
    "must be called run: `def run(input):`."
)
MUST_TAKE_INPUT = "`run` must take exactly one parameter, the input: write `def run(input):`."
MUST_NOT_EXIT = (
    "cannot stay when the program becomes a function: let every path reach the print at the end, "
    "or raise an exception if it fails."
)
MUST_NOT_RETURN = "must not return before the print at its end, which gives the result: use if and else."
MUST_BE_QUIET = (
    'This would run whenever the skill is imported: put it under `if __name__ == "__main__":`, or, if `run` is not '
    "the skill but a helper, give it another name."
)
EXITS = {"sys": "exit", "os": "_exit"}
WRITE_FUNCTION = "Write it as `def run(input):` that returns the result."

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Problem(Exception):
    """What keeps the code from being a skill, in a sentence for whoever wrote it."""

    def __init__(self, message: str, node: ast.AST | int | None = None) -> None:
        line = node if isinstance(node, int) else getattr(node, "lineno", None)
        super().__init__(message if line is None else f"Line {line}: {message}")


def examine(code: str, parameters: Sequence[str] | None) -> dict[str, Any]:
    """Return everything that can be told of the code."""
    code = code.removeprefix("\ufeff")
    tree = parse(code)
    run = next((node for node in reversed(tree.body) if isinstance(node, _Function) and node.name == "run"), None)
    if run is not None and takes_input(run) and not is_helper(run, tree):
        require_quiet(tree)
        require_valid(code, 0)
        reader = SchemaReader(tree, code)
        taken = (*run.args.posonlyargs, *run.args.args)[0].annotation
        types = {"input": reader.read(taken) or None, "output": reader.read(run.returns) or None}
        found = {"form": "function", "code": code, **types, "defaults": {}}
    else:
        require_valid(code, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        try:
            found = {"form": "program", **Program(code).as_function(parameters or ())}
        except Problem:
            if run is not None and not isinstance(tree.body[-1], ast.Expr):
                raise Problem(MUST_TAKE_INPUT, run) from None
            raise
    return {"ok": True, **found, "imports": imports(tree)}


def parse(code: str) -> ast.Module:
    try:
        return ast.parse(code)
    except SyntaxError as error:
        raise Problem(_why(error), error.lineno) from None
    except ValueError:
        raise Problem("The code must be text without null bytes and unpaired surrogates.") from None


def require_valid(code: str, flags: int) -> None:
    """Find what the parser lets pass, such as a `return` outside of a function."""
    try:
        compile(code, "<skill>", "exec", flags, dont_inherit=True)
    except SyntaxError as error:
        raise Problem(_why(error), error.lineno) from None
    except ValueError as error:
        raise Problem(f"The code cannot be compiled: {error}.") from None


def _why(error: SyntaxError) -> str:
    if error.msg == "too many nested parentheses" or error.msg == "too many statically nested blocks":
        return "The code is nested too deeply: split it up."
    return f"The code must be valid Python, but has a syntax error: {error.msg}."


def takes_input(run: _Function) -> bool:
    given = run.args
    only_one = len(given.posonlyargs) + len(given.args) == 1
    return only_one and not given.kwonlyargs and given.vararg is None and given.kwarg is None


def require_quiet(tree: ast.Module) -> None:
    """Reject a function that is also called when its module is imported."""
    statements = [node for node in tree.body if not _asks_for_main(node)]
    calls = (node for node in _in_scope(statements) if isinstance(node, ast.Call))
    if (call := next((node for node in calls if _dotted(node.func) == "run"), None)) is not None:
        raise Problem(MUST_BE_QUIET, call)
    if isinstance(last := tree.body[-1], ast.Expr) and isinstance(last.value, ast.Call | ast.Await):
        raise Problem(MUST_BE_QUIET, last)


def is_helper(run: _Function, tree: ast.Module) -> bool:
    """Tell whether a program that ends by doing something gives its own `run` something else than an input."""
    if not isinstance(tree.body[-1], ast.Expr):
        return False
    others = (node for statement in tree.body if statement is not run for node in ast.walk(statement))
    return any(
        not may_be_input(argument, tree)
        for node in others
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "run"
        for argument in (*node.args, *(keyword.value for keyword in node.keywords))
    )


def may_be_input(argument: ast.expr, tree: ast.Module) -> bool:
    values: list[ast.expr | None] = [argument]
    if isinstance(argument, ast.Name):
        assignments = (_assignment(statement, argument.id) for statement in tree.body)
        values = [found.value for found in assignments if found is not None]
    no_inputs = (ast.Constant, ast.JoinedStr, ast.BinOp, ast.List, ast.Tuple)
    return bool(values) and not any(isinstance(value, no_inputs) for value in values)


# --- Types -----------------------------------------------------------------------------------------------------------

_SIMPLE = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "None": "null", "NoneType": "null"}
_LISTS = frozenset({"list", "List", "Sequence", "MutableSequence", "Iterable", "Collection"})
_DICTS = frozenset({"dict", "Dict", "Mapping", "MutableMapping", "OrderedDict", "defaultdict"})
_WRAPPERS = frozenset({"Required", "NotRequired", "ReadOnly", "Final", "Annotated"})
_NOT_DOCUMENTATION = ("type:", "noqa", "pragma", "ty:", "pyright:", "mypy:")


@dataclass(slots=True)
class Members:
    """The fields of a TypedDict or a dataclass."""

    properties: dict[str, Schema] = field(default_factory=dict)
    required: dict[str, bool] = field(default_factory=dict)

    def as_schema(self) -> Schema:
        schema: Schema = {"type": "object", "properties": self.properties}
        required = [name for name, is_required in self.required.items() if is_required]
        return {**schema, "required": required} if required else schema


class SchemaReader:
    """Reads annotations as JSON Schemas; what cannot be told may be anything."""

    def __init__(self, tree: ast.Module, code: str) -> None:
        self._parts = 0
        self._classes: dict[str, ast.ClassDef] = {}
        self._aliases: dict[str, ast.expr] = {}
        self._imported: dict[str, str] = {}
        self._comments = _comments(code)
        for node in tree.body:
            match node:
                case ast.ClassDef():
                    self._classes[node.name] = node
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self._aliases[name] = value
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    self._aliases[name] = value
                case ast.ImportFrom():
                    self._imported |= {alias.asname: alias.name for alias in node.names if alias.asname}

    def read(self, node: ast.expr | None, within: frozenset[str] = frozenset()) -> Schema:
        """Return the schema of an annotation that is within the named types, which it cannot repeat."""
        self._parts += 1
        if node is None or self._parts > MAX_PARTS:
            return {}
        match node:
            case ast.Constant(value=None):
                return {"type": "null"}
            case ast.Constant(value=str(text)):
                try:
                    return self.read(ast.parse(text.strip(), mode="eval").body, within)
                except (SyntaxError, ValueError):
                    return {}
            case ast.BinOp(op=ast.BitOr()):
                return self._union(_alternatives(node), within)
            case ast.Subscript(value=value, slice=argument):
                arguments = argument.elts if isinstance(argument, ast.Tuple) else [argument]
                return self._generic(self._name(value), arguments, within)
            case ast.Name() | ast.Attribute():
                return self._named(self._name(node), within)
        return {}

    def _name(self, node: ast.expr) -> str:
        match node:
            case ast.Name(id=name):
                return self._imported.get(name, name)
            case ast.Attribute(attr=name):
                return name
        return ""

    def _named(self, name: str, within: frozenset[str]) -> Schema:
        if name in within:
            return {}
        inner = within | {name}
        if name in self._classes:
            members = self._members(name, within)
            return {} if members is None else {**members.as_schema(), **self._docstring(name)}
        if name in self._aliases:
            match self._aliases[name]:
                case ast.Call(func=called, args=[_, ast.Dict() as fields], keywords=keywords):
                    return self._typed_dict_of(fields, keywords, inner) if self._name(called) == "TypedDict" else {}
                case alias:
                    return self.read(alias, inner)
        if name in _SIMPLE:
            return {"type": _SIMPLE[name]}
        if name in _LISTS or name in ("tuple", "Tuple"):
            return {"type": "array"}
        return {"type": "object"} if name in _DICTS else {}

    def _generic(self, name: str, arguments: list[ast.expr], within: frozenset[str]) -> Schema:
        if name in ("tuple", "Tuple"):
            return self._tuple(arguments, within)
        if not arguments:
            return {}
        if name in _LISTS:
            return _with({"type": "array"}, "items", self.read(arguments[0], within))
        if name in _DICTS:
            values = self.read(arguments[1], within) if len(arguments) == 2 else {}
            return _with({"type": "object"}, "additionalProperties", values)
        if name == "Optional":
            return self._union([arguments[0], ast.Constant(value=None)], within)
        if name == "Union":
            return self._union(arguments, within)
        if name == "Literal":
            return self._literals(arguments)
        if name in _WRAPPERS:
            return {**self.read(arguments[0], within), **_documentation(arguments[1:])}
        return {}

    def _tuple(self, arguments: list[ast.expr], within: frozenset[str]) -> Schema:
        match arguments:
            case [each, ast.Constant(value=value)] if value is ...:
                return _with({"type": "array"}, "items", self.read(each, within))
        items = [self.read(each, within) for each in arguments]
        if not items:
            return {"type": "array", "maxItems": 0}
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}

    def _literals(self, arguments: list[ast.expr]) -> Schema:
        try:
            values = [ast.literal_eval(argument) for argument in arguments]
        except (ValueError, TypeError, SyntaxError):
            return {}
        if not all(value is None or isinstance(value, str | int) for value in values):
            return {}
        types = {_type_of(value) for value in values}
        return {"type": types.pop(), "enum": values} if len(types) == 1 else {"enum": values}

    def _union(self, members: list[ast.expr], within: frozenset[str]) -> Schema:
        found: list[Schema] = []
        for member in members:
            schema = self.read(member, within)
            if not schema:
                return {}
            found += [each for each in schema.get("anyOf", [schema]) if each not in found]
        return found[0] if len(found) == 1 else {"anyOf": found}

    def _members(self, name: str, within: frozenset[str]) -> Members | None:
        """Return the fields of a class with those that it inherits; None unless it is a TypedDict or a dataclass."""
        self._parts += 1
        if self._parts > MAX_PARTS:
            return None
        node = self._classes[name]
        inner = within | {name}
        bases = [self._name(base) for base in node.bases if self._name(base) not in inner]
        inherited = [self._members(base, inner) for base in bases if base in self._classes]
        is_dataclass = any(self._name(_called(each)) == "dataclass" for each in node.decorator_list)
        if not is_dataclass and "TypedDict" not in bases and not any(inherited):
            return None
        members = Members()
        for each in filter(None, inherited):
            members.properties |= each.properties
            members.required |= each.required
        total = not any(each.arg == "total" and _is_false(each.value) for each in node.keywords)
        for statement in node.body:
            match statement:
                case ast.AnnAssign(target=ast.Name(id=key), annotation=annotation) if not self._is_class_variable(
                    annotation
                ):
                    description = self._comment_of(statement)
                    members.properties[key] = {**self.read(annotation, inner), **description}
                    members.required[key] = self._is_required(annotation, total and statement.value is None)
        return members

    def _typed_dict_of(self, fields: ast.Dict, keywords: list[ast.keyword], within: frozenset[str]) -> Schema:
        members = Members()
        total = not any(each.arg == "total" and _is_false(each.value) for each in keywords)
        for key, annotation in zip(fields.keys, fields.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                members.properties[key.value] = self.read(annotation, within)
                members.required[key.value] = self._is_required(annotation, total)
        return members.as_schema()

    def _is_required(self, annotation: ast.expr, otherwise: bool) -> bool:
        for _ in range(5):  # each may be wrapped in others, or in a text
            match annotation:
                case ast.Constant(value=str(text)):
                    try:
                        annotation = ast.parse(text.strip(), mode="eval").body
                    except (SyntaxError, ValueError):
                        return otherwise
                case ast.Subscript(value=value, slice=argument):
                    name = self._name(value)
                    if name in ("Required", "NotRequired"):
                        return name == "Required"
                    if name not in _WRAPPERS:
                        return otherwise
                    annotation = argument.elts[0] if isinstance(argument, ast.Tuple) and argument.elts else argument
        return otherwise

    def _is_class_variable(self, annotation: ast.expr) -> bool:
        return self._name(annotation.value if isinstance(annotation, ast.Subscript) else annotation) == "ClassVar"

    def _docstring(self, name: str) -> Schema:
        text = ast.get_docstring(self._classes[name])
        return {"description": text} if text else {}

    def _comment_of(self, statement: ast.stmt) -> Schema:
        """Take what is said of a field at the end of its line, or on a line of its own right above."""
        after = self._comments.get(statement.end_lineno or 0)
        above = self._comments.get(statement.lineno - 1)
        text = after[1] if after else above[1] if above and above[0] else ""
        return {"description": text} if text and not text.startswith(_NOT_DOCUMENTATION) else {}


def _comments(code: str) -> dict[int, tuple[bool, str]]:
    """Return each line's comment, and whether it has the line to itself."""
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    found = {}
    try:
        for token in tokens:
            if token.type == tokenize.COMMENT:
                is_alone = not token.line[: token.start[1]].strip()
                found[token.start[0]] = is_alone, token.string.lstrip("#: ").rstrip()
    except (tokenize.TokenError, SyntaxError):
        pass  # comments only describe
    return found


def _alternatives(node: ast.expr) -> list[ast.expr]:
    found: list[ast.expr] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        found.append(node.right)
        node = node.left
    return [node, *reversed(found)]


def _documentation(arguments: Iterable[ast.expr]) -> Schema:
    for argument in arguments:
        match argument:
            case ast.Constant(value=str(text)) | ast.Call(args=[ast.Constant(value=str(text))]):
                return {"description": text}
    return {}


def _with(schema: Schema, key: str, inner: Schema) -> Schema:
    return {**schema, key: inner} if inner else schema


def _called(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def _type_of(value: Any) -> str:
    return _SIMPLE[type(value).__name__]


def schema_of(value: Any) -> Schema:
    """Infer a schema from a literal: what may be null instead, nobody knows."""
    if value is None:
        return {}
    if isinstance(value, dict):
        return {"type": "object"}
    if isinstance(value, list):
        kinds = [schema_of(each) for each in value]
        return _with({"type": "array"}, "items", kinds[0] if kinds and all(kind == kinds[0] for kind in kinds) else {})
    return {"type": _type_of(value)}


# --- Programs --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Edit:
    start: int
    end: int
    text: bytes


class Program:
    """A program that is made a function by moving its text, of which as much as possible stays as it was written."""

    def __init__(self, code: str) -> None:
        # Positions are told in lines as Python counts them, and in bytes of UTF-8.
        self._code = code.replace("\r\n", "\n").replace("\r", "\n")
        self._source = self._code.encode()
        self._tree = parse(self._code)
        self._line_starts = [0]
        for line in self._source.split(b"\n"):
            self._line_starts.append(self._line_starts[-1] + len(line) + 1)
        self._edits: list[Edit] = []
        self._main_block = self._find_main_block()
        self._statements = self._tree.body
        if self._main_block is not None:
            self._statements = [*self._tree.body[:-1], *self._main_block.body]
        self._is_async = any(_awaits(statement) for statement in self._statements)

    def as_function(self, parameters: Sequence[str]) -> dict[str, Any]:
        self._return_last()
        self._require_no_globals()
        self._require_no_exits()
        argument = self._unused_name("input")
        defaults, properties = self._take_parameters(parameters, argument)
        self._require_no_lost_builtins()
        self._require_no_lost_variables()
        turned = self._write(argument)
        try:
            compile(turned, "<skill>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            why = getattr(error, "msg", str(error))
            raise Problem(f"The program cannot be turned into a function: {why}. {WRITE_FUNCTION}") from None
        schema = {"type": "object", "properties": properties, "additionalProperties": False}
        return {"code": turned, "input": schema, "output": None, "defaults": defaults}

    def _find_main_block(self) -> ast.If | None:
        blocks = [node for node in self._tree.body if _asks_for_main(node)]
        if not blocks:
            return None
        block = blocks[-1]
        if len(blocks) > 1 or block is not self._tree.body[-1] or not isinstance(block, ast.If) or block.orelse:
            raise Problem('`if __name__ == "__main__":` must be last, and without `else`.', blocks[0])
        return block

    # What is returned.

    def _return_last(self) -> None:
        match self._statements[-1] if self._statements else None:
            case ast.Expr(value=ast.Call(func=ast.Name(id="print")) as call) as last:
                self._return_printed(last, call)
            case ast.Expr(value=value) as last if (main := self._main_called_by(value)) is not None:
                match main.body[-1]:
                    case ast.Expr(value=ast.Call(func=ast.Name(id="print")) as call) as printed:
                        self._return_printed(printed, call)
                    case other:
                        raise Problem(f"{MUST_PRINT} So must `{main.name}`, which it calls.", other)
                for node in _in_scope(main.body):
                    if isinstance(node, ast.Return):
                        raise Problem(f"`{main.name}` {MUST_NOT_RETURN}", node)
                if main.returns is not None:  # what it returned is not what it returns now
                    arrow = self._source.rindex(b"->", 0, self._start(main.returns))
                    self._edit(len(self._source[:arrow].rstrip()), self._end(main.returns), b"")
                self._is_async |= isinstance(main, ast.AsyncFunctionDef)
                called = b"await " if isinstance(main, ast.AsyncFunctionDef) else b""
                self._edit(self._start(last), self._end(last), b"return %s%s()" % (called, main.name.encode()))
            case last:
                raise Problem(MUST_PRINT, last)

    def _main_called_by(self, node: ast.expr) -> _Function | None:
        """Return the function of the program that is called without arguments, also by `await` or `asyncio.run`."""
        match node:
            case ast.Await(value=inner) | ast.Call(func=ast.Attribute(ast.Name("asyncio"), "run"), args=[inner]):
                node = inner
        match node:
            case ast.Call(func=ast.Name(id=name), args=[], keywords=[]):
                found = [each for each in self._statements if isinstance(each, _Function) and each.name == name]
                return found[-1] if found and not found[-1].decorator_list else None
        return None

    def _return_printed(self, statement: ast.stmt, call: ast.Call) -> None:
        match call:
            case ast.Call(args=[value], keywords=keywords) if not isinstance(value, ast.Starred) and all(
                each.arg in ("end", "flush", "sep") for each in keywords
            ):
                self._edit(self._start(statement), self._end(statement), b"return " + self._result(value))
            case _:
                raise Problem(f"{MUST_PRINT} Print exactly one value.", statement)

    def _result(self, value: ast.expr) -> bytes:
        """Write what is returned for a printed value; of what is printed as JSON, the value that it was made of."""
        match value:
            case ast.Call(func=dumps, args=[written], keywords=keywords) if not isinstance(written, ast.Starred):
                module = self._module_of_dumps(dumps)
                names = {each.arg for each in keywords}
                if module is not None and names.isdisjoint({None, "cls", "default", "skipkeys"}):
                    return self._expression(written)
                if module:  # the value itself is none that JSON has
                    return b"%s.loads(%s)" % (module.encode(), self._expression(value))
        return self._expression(value)

    def _module_of_dumps(self, called: ast.expr) -> str | None:
        """Return what the program calls the module whose `dumps` this is, "" if it imported just that."""
        names: dict[str, str] = {}
        for node in ast.walk(self._tree):
            match node:
                case ast.Import():
                    names |= {alias.asname or "json": "" for alias in node.names if alias.name == "json"}
                case ast.ImportFrom(module="json"):
                    names |= {alias.asname or "dumps": "dumps" for alias in node.names if alias.name == "dumps"}
        match called:
            case ast.Attribute(value=ast.Name(id=module), attr="dumps") if names.get(module) == "":
                return module
            case ast.Name(id=name) if names.get(name) == "dumps":
                return ""
        return None

    def _expression(self, node: ast.expr) -> bytes:
        text = self._text(node)
        has_brackets = isinstance(node, ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.SetComp)
        if isinstance(node, ast.NamedExpr) or (b"\n" in text and not has_brackets):
            return b"(%s)" % text
        return text

    # What is given.

    def _take_parameters(self, names: Sequence[str], argument: str) -> tuple[dict[str, Any], dict[str, Schema]]:
        reader = SchemaReader(self._tree, self._code)
        defaults: dict[str, Any] = {}
        properties: dict[str, Schema] = {}
        for name in dict.fromkeys(names):
            bindings = [node for node in _bindings(self._statements) if _bound(node) == name]
            statement = next((found for each in self._statements if (found := _assignment(each, name))), None)
            if statement is None or statement.value is None:
                where = bindings[0] if bindings else None
                raise Problem(f"`{name}` must be a variable that the program assigns at its top level.", where)
            if len(bindings) > 1:
                raise Problem(f"`{name}` must be assigned only once, to be a parameter.", bindings[1])
            value = _literal(name, statement.value)
            annotation = statement.annotation if isinstance(statement, ast.AnnAssign) else None
            defaults[name] = value
            properties[name] = {**(reader.read(annotation) or schema_of(value)), "default": value}
            declared = self._end(annotation) if annotation is not None else self._start(statement) + len(name.encode())
            default = self._text(statement.value)
            taken = b' = %s.get("%s", %s)' % (argument.encode(), name.encode(), default)
            self._edit(declared, self._end(statement), taken)
        return defaults, properties

    def _unused_name(self, wanted: str) -> str:
        used = {node.id for node in ast.walk(self._tree) if isinstance(node, ast.Name)}
        used |= {name for node in _bindings(self._tree.body) if (name := _bound(node))}
        while wanted in used:
            wanted += "_"
        return wanted

    # What would mean something else inside of a function.

    def _require_no_globals(self) -> None:
        for node in ast.walk(self._tree):
            match node:
                case ast.Global(names=names):
                    told = f"`global {', '.join(names)}` cannot stay when the program becomes a function"
                    raise Problem(f"{told}: pass the value and return it instead.", node)
                case ast.Call(func=ast.Name(id="globals")):
                    raise Problem("`globals()` cannot stay when the program becomes a function: use a dict.", node)

    def _require_no_exits(self) -> None:
        exits = self._names_of_exits()
        for node in ast.walk(self._tree):
            match node:
                case ast.Call(func=called) if (name := _dotted(called)) in exits:
                    raise Problem(f"`{name}()` {MUST_NOT_EXIT}", node)
                case ast.Raise(exc=ast.Name(id="SystemExit") | ast.Call(func=ast.Name(id="SystemExit"))):
                    raise Problem(f"`raise SystemExit` {MUST_NOT_EXIT}", node)

    def _names_of_exits(self) -> set[str]:
        imported: set[str] = set()
        own: set[str | None] = set()
        for node in ast.walk(self._tree):
            own.add(node.arg if isinstance(node, ast.arg) else _bound(node))
            match node:
                case ast.Import(names=aliases):
                    for each in aliases:
                        module = each.name if each.asname else each.name.partition(".")[0]  # `os.path` binds `os`
                        imported |= {f"{_bound(each)}.{EXITS[module]}"} if module in EXITS else set()
                case ast.ImportFrom(module=str(module), names=aliases, level=0):
                    imported |= {each.asname or each.name for each in aliases if each.name == EXITS.get(module)}
        return imported | ({"exit", "quit"} - own)

    def _require_no_lost_builtins(self) -> None:
        """Reject `sum = sum(values)`: inside of a function, the right side would be the variable, too."""
        for node in _read_before_bound(self._statements):
            if hasattr(builtins, node.id):
                raise Problem(f"`{node.id}` is built in: give the program's variable another name.", node)

    def _require_no_lost_variables(self) -> None:
        """Reject `names = names` in a class body: inside of a function, the right side would not be found."""
        inside = {_bound(node) for node in _bindings(self._statements[self._count_outside() :])}
        for body in (node.body for node in ast.walk(self._tree) if isinstance(node, ast.ClassDef)):
            for node in _read_before_bound(body):
                if node.id in inside:
                    message = f"`{node.id}` names a class attribute and a variable of the program: rename one."
                    raise Problem(message, node)

    # The text.

    def _start(self, node: ast.stmt | ast.expr) -> int:
        return self._line_starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.stmt | ast.expr) -> int:
        return self._line_starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)

    def _text(self, node: ast.stmt | ast.expr) -> bytes:
        return self._source[self._start(node) : self._end(node)]

    def _edit(self, start: int, end: int, text: bytes) -> None:
        self._edits.append(Edit(start, end, text))

    def _write(self, argument: str) -> str:
        """Leave the imports at the beginning where they are, and put the rest into a function."""
        outside = self._count_outside()
        lines_outside = self._statements[outside - 1].end_lineno or 0 if outside else 0
        self._indent(lines_outside)
        cut = self._line_starts[lines_outside]
        written, position = [], cut
        for edit in sorted(self._edits, key=lambda edit: (edit.start, edit.end)):
            if edit.start < position:
                continue  # a line of a statement that was replaced
            written += [self._source[position : edit.start], edit.text]
            position = edit.end
        body = b"".join([*written, self._source[position:]]).strip(b"\n")
        head = self._source[:cut].strip(b"\n")
        keyword = b"async def" if self._is_async else b"def"
        function = b"%s run(%s):\n%s\n" % (keyword, argument.encode(), body)
        return (b"%s\n\n\n%s" % (head, function) if head else function).decode()

    def _count_outside(self) -> int:
        """Count the statements that stay: the docstring and the imports, unless the program binds their names again."""
        inside = [index for index, node in enumerate(self._statements) if not _stays(node, index)]
        count = inside[0] if inside else len(self._statements) - 1
        rebound = {_bound(node) for node in _bindings(self._statements[count:])}
        for index, statement in enumerate(self._statements[:count]):
            if any(_bound(node) in rebound for node in _bindings([statement])):
                count = index
                break
        while count and self._statements[count - 1].end_lineno == self._statements[count].lineno:
            count -= 1  # they share a line
        return count

    def _indent(self, lines_outside: int) -> None:
        """Indent each line but those that a text goes on in; the main block gives its indentation to the function."""
        inside_texts: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(self._code).readline):
            if token.type not in (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT):
                inside_texts |= set(range(token.start[0] + 1, token.end[0] + 1))
        own = b""
        block = self._main_block
        if block is not None:
            first = block.body[0]
            if first.lineno > block.test.lineno:
                own = self._source[self._line_starts[first.lineno - 1] : self._start(first)]
                self._edit(self._line_starts[block.lineno - 1], self._line_starts[self._last_line_of_test(block)], b"")
            else:
                self._edit(self._start(block), self._start(first), b"")
        for number in range(lines_outside + 1, len(self._line_starts)):
            start, end = self._line_starts[number - 1], self._line_starts[number] - 1
            line = self._source[start:end]
            if number in inside_texts or not line.strip():
                continue
            if block is not None and own and block.lineno <= number:
                if number > self._last_line_of_test(block):
                    self._edit(start, start + (len(own) if line.startswith(own) else 0), INDENT)
                continue
            self._edit(start, start, INDENT)

    def _last_line_of_test(self, block: ast.If) -> int:
        last = block.body[0].lineno - 1
        while last > (block.test.end_lineno or 0):
            line = self._source[self._line_starts[last - 1] : self._line_starts[last]].strip()
            if line and not line.startswith(b"#"):
                break
            last -= 1
        return last


def _stays(node: ast.stmt, index: int) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom():
            return True
        case ast.Expr(value=ast.Constant(value=str())):
            return index == 0
    return False


def _asks_for_main(node: ast.stmt) -> bool:
    match node:
        case ast.If(test=ast.Compare(left=left, ops=[ast.Eq()], comparators=[right])):
            return any(isinstance(each, ast.Name) and each.id == "__name__" for each in (left, right))
    return False


def _in_scope(statements: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Go through everything that is not inside of a function or a class."""
    waiting = [*statements][::-1]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.comprehension):
            waiting += [*node.ifs[::-1], node.iter]  # its variables are its own
        elif not isinstance(node, _SCOPES):
            waiting += [*ast.iter_child_nodes(node)][::-1]


def _awaits(statement: ast.stmt) -> bool:
    return any(
        isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith)
        or (isinstance(node, ast.comprehension) and bool(node.is_async))
        for node in _in_scope([statement])
    )


def _bindings(statements: Iterable[ast.AST]) -> Iterator[ast.AST]:
    return (node for node in _in_scope(statements) if _bound(node))


def _bound(node: ast.AST) -> str | None:
    """Return the name that a node binds in the scope that it is in."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            return name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.alias(name=name, asname=asname):
            return asname or name.partition(".")[0]
        case ast.ExceptHandler(name=name) | ast.MatchAs(name=name) | ast.MatchStar(name=name):
            return name
        case ast.MatchMapping(rest=name):
            return name
    return None


def _read_before_bound(statements: Sequence[ast.stmt]) -> Iterator[ast.Name]:
    """Find where a name is read before the statement that first binds it in this scope has ended."""
    first: dict[str | None, tuple[int, int]] = {}
    for statement in statements:
        for node in _bindings([statement]):
            first.setdefault(_bound(node), (statement.end_lineno or 0, statement.end_col_offset or 0))
    for node in _in_scope(statements):
        match node:
            case ast.Name(id=name, ctx=ast.Load(), lineno=line, col_offset=column) if name in first:
                if (line, column) < first[name]:
                    yield node


def _dotted(node: ast.expr) -> str | None:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=module), attr=name):
            return f"{module}.{name}"
    return None


def _assignment(statement: ast.stmt, name: str) -> ast.Assign | ast.AnnAssign | None:
    match statement:
        case ast.Assign(targets=[ast.Name(id=target)]) as found if target == name:
            return found
        case ast.AnnAssign(target=ast.Name(id=target), simple=1) as declared if target == name:
            return declared
    return None


def _literal(name: str, node: ast.expr) -> Any:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        value = ...
    if not _is_json(value):
        kinds = "a text, a number, True, False, None, or a list or dict of these"
        raise Problem(f"`{name}` must be assigned a literal, to be a parameter: {kinds}.", node)
    return value


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(each) for key, each in value.items())
    if isinstance(value, list):
        return all(map(_is_json, value))
    return value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))


# --- Imports ---------------------------------------------------------------------------------------------------------


def imports(tree: ast.Module) -> list[Import]:
    """Name the tools and skills that the code imports, in order; with None for a server whose tools cannot be told."""
    found: dict[Import, None] = {}
    modules: dict[str, tuple[str, ...]] = {}  # by the name that the code has for it
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                for alias in aliases:
                    path = tuple(alias.name.split("."))
                    if path[0] not in ("servers", "skills"):
                        continue
                    if alias.asname:
                        modules[alias.asname] = path
                    else:
                        modules[path[0]] = path[:1]
                    found |= dict.fromkeys(_tool(path))
            case ast.ImportFrom(module=str(module), names=aliases, level=0):
                path = tuple(module.split("."))
                if path[0] not in ("servers", "skills"):
                    continue
                for alias in aliases:
                    if alias.name != "*":
                        modules[alias.asname or alias.name] = (*path, alias.name)
                    found |= dict.fromkeys(_tool(path if alias.name == "*" else (*path, alias.name)))
            case ast.Call(func=called, args=[ast.Constant(value=str(module)), *_]) if _imports_modules(called):
                path = tuple(module.split("."))
                if path[0] in ("servers", "skills"):
                    found |= dict.fromkeys(_tool(path))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            found |= dict.fromkeys(_tool(_path_of(node, modules)))
    told = {server for server, tool in found if tool is not None}
    return [(server, tool) for server, tool in found if tool is not None or server not in told]


def _imports_modules(called: ast.expr) -> bool:
    match called:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in ("import_module", "__import__")
    return False


def _path_of(node: ast.Attribute, modules: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the path of what an attribute stands for, if it begins with an imported module."""
    names = [node.attr]
    inner = node.value
    while isinstance(inner, ast.Attribute) and len(names) < 4:
        names.append(inner.attr)
        inner = inner.value
    if not isinstance(inner, ast.Name) or inner.id not in modules:
        return ()
    path = modules[inner.id]
    is_tool = len(path) >= 3 or (path[0] == "skills" and len(path) == 2)
    return () if is_tool else (*path, *reversed(names))


def _tool(path: tuple[str, ...]) -> list[Import]:
    """Read servers.SERVER.TOOL or skills.NAME, whatever comes behind."""
    if path[:1] == ("skills",):
        path = ("servers", *path)
    server, tool = (*path[1:3], None, None)[:2]
    if server is None or server in CLIENT_LIBRARY or server.startswith("_") or (tool or "").startswith("_"):
        return []
    return [(server, tool)]


def answer(request: dict[str, Any]) -> dict[str, Any]:
    warnings.simplefilter("ignore")  # of the code
    try:
        return examine(request["code"], request.get("parameters"))
    except Problem as problem:
        return {"ok": False, "problem": str(problem)}
    except (RecursionError, MemoryError):
        return {"ok": False, "problem": "The code is nested too deeply to be read: split it up."}


def main() -> None:
    with open(REQUEST, encoding="utf-8") as file:
        request = json.load(file)
    try:
        line = json.dumps(answer(request), ensure_ascii=False, allow_nan=False)
    except (RecursionError, ValueError):
        line = json.dumps({"ok": False, "problem": "The code has literals that JSON has not: simplify them."})
    # An answer may have what is in the code, also what no encoding has.
    sys.stdout.buffer.write(line.encode("utf-8", "backslashreplace") + b"\n")


if __name__ == "__main__":
    main()

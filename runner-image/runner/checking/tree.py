"""A Python program as a syntax tree that knows what stands around each of its parts."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property

Place = tuple[int, int]  # line and column, both counted from 1, the column in characters

_CATCH_ALL = {"Exception", "BaseException"}
_SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef


class Tree:
    def __init__(self, root: ast.Module, code: bytes) -> None:
        self._root = root
        self._code = code
        self.nodes: list[ast.AST] = []
        self.parents: dict[ast.AST, ast.AST] = {}
        waiting: list[ast.AST] = [root]
        for node in waiting:
            self.nodes.append(node)
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
                waiting.append(child)
        self.calls = [node for node in self.nodes if isinstance(node, ast.Call)]

    # --- places: the parser counts bytes ---

    def place_of(self, node: ast.expr | ast.stmt | ast.keyword) -> Place:
        line = self.lines[node.lineno - 1]
        column = node.col_offset if line.isascii() else len(line[: node.col_offset].decode(errors="replace"))
        return node.lineno, column + 1

    def nodes_at(self, place: Place) -> list[ast.AST]:
        """Return what begins at this place, the outermost first."""
        line, column = place
        if line > len(self.lines):
            return []
        text = self.lines[line - 1]
        offset = column - 1 if text.isascii() else len(text.decode(errors="replace")[: column - 1].encode())
        return self._by_place.get((line, offset), [])

    @cached_property
    def lines(self) -> list[bytes]:
        return self._code.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")

    @cached_property
    def _by_place(self) -> dict[Place, list[ast.AST]]:
        found: dict[Place, list[ast.AST]] = defaultdict(list)
        for node in self.nodes:
            if isinstance(node, ast.expr | ast.keyword):
                found[node.lineno, node.col_offset].append(node)
        return found

    # --- names ---

    @cached_property
    def times_bound(self) -> dict[str, int]:
        found: dict[str, int] = defaultdict(int)
        for node in self.nodes:
            for name in names_bound_by(node):
                found[name] += 1
        return found

    @cached_property
    def uses(self) -> dict[str, list[ast.Name]]:
        found: dict[str, list[ast.Name]] = defaultdict(list)
        for node in self.nodes:
            if isinstance(node, ast.Name):
                found[node.id].append(node)
        return found

    def scope_of(self, node: ast.AST) -> ast.AST:
        return next((each for each in self.around(node) if isinstance(each, _SCOPES)), self._root)

    @cached_property
    def awaits_at_top_level(self) -> bool:
        awaits = (each for each in self.nodes if isinstance(each, ast.Await | ast.AsyncFor | ast.AsyncWith))
        return any(self.scope_of(each) is self._root for each in awaits)

    # --- what stands around ---

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        while node in self.parents:
            node = self.parents[node]
            yield node

    def is_provided_for(self, node: ast.AST, *errors: str) -> bool:
        """Tell whether an error there is caught by name, or by a handler that does more than to tell of it."""
        for outer in self.around(node):
            child, node = node, outer
            match outer:
                case ast.Try(body=body, handlers=handlers):
                    provided = child in body and any(_provides_for(handler, errors) for handler in handlers)
                case ast.With(items=items):
                    provided = any(_suppresses(item, errors) for item in items)
                case ast.If(test=test, body=body):
                    provided = child in body and _is_never_true(test)
                case _:
                    provided = False
            if provided:
                return True
        return False

    def is_caught(self, node: ast.AST, error: str) -> bool:
        """Tell whether an error there is caught by its own name."""
        for outer in self.around(node):
            child, node = node, outer
            caught: list[ast.expr | None] = []
            match outer:
                case ast.Try(body=body, handlers=handlers) if child in body:
                    caught = [handler.type for handler in handlers]
                case ast.With(items=items):
                    calls = (item.context_expr for item in items if isinstance(item.context_expr, ast.Call))
                    caught = [argument for call in calls for argument in call.args]
            if any(error in _errors_named(each) for each in caught):
                return True
        return False

    def is_annotation(self, node: ast.AST) -> bool:
        """Annotations need not be evaluated; whether they are depends on where they stand."""
        for outer in self.around(node):
            child, node = node, outer
            match outer:
                case ast.AnnAssign(annotation=annotation) | ast.arg(annotation=annotation) if annotation is child:
                    return True
                case ast.FunctionDef(returns=annotation) | ast.AsyncFunctionDef(returns=annotation):
                    return annotation is child
        return False


def names_bound_by(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.arg(arg=name):
            yield name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            yield from (alias.asname or alias.name for alias in aliases)


def _provides_for(handler: ast.ExceptHandler, errors: tuple[str, ...]) -> bool:
    named = _errors_named(handler.type)
    if named & {*errors}:
        return True
    # Programs are often one large `try` whose handler prints the error: that fails as well as without it.
    only_tells = all(
        isinstance(each, ast.Raise) or (isinstance(each, ast.Expr) and isinstance(each.value, ast.Call))
        for each in handler.body
    )
    return (handler.type is None or bool(named & _CATCH_ALL)) and not only_tells


def _suppresses(item: ast.withitem, errors: tuple[str, ...]) -> bool:
    match item.context_expr:
        case ast.Call(func=ast.Name(id="suppress") | ast.Attribute(attr="suppress"), args=arguments):
            return any(_errors_named(each) & {*errors, *_CATCH_ALL} for each in arguments)
    return False


def _errors_named(spelled: ast.expr | None) -> set[str]:
    match spelled:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return {name}
        case ast.Tuple(elts=elements):
            return set().union(*map(_errors_named, elements))
    return set()


def _is_never_true(test: ast.expr) -> bool:
    match test:
        case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
            return True
        case ast.Constant(value=value):
            return not value
    return False

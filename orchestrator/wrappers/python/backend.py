"""Writes wrappers in Python."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from orchestrator.domain.execution import Language
from orchestrator.domain.names import Names, tool_identifier
from orchestrator.wrappers.backend import ToolModule, directory
from orchestrator.wrappers.contract import Contract
from orchestrator.wrappers.python.text import docstring, is_keyword_argument, literal
from orchestrator.wrappers.python.types import BRIEF, TYPING_NAMES, Declarations, is_attribute_name
from orchestrator.wrappers.rules import input_rule
from orchestrator.wrappers.signatures import Pieces, example_arguments, short_enough
from orchestrator.wrappers.types import Content, Never, Record, Type

# Two lines, because a comment in the first two could otherwise choose the encoding of the file.
_HEADER = (
    "# Generated from what the server says about its tools.\n"
    "# Each function takes keyword arguments or one dict; in async code, await each call.\n"
)


class PythonBackend:
    index_file = "__init__.py"

    def tool_module(self, contract: Contract) -> str:
        declarations = Declarations(contract)
        input_is_typed_dict = declarations.add(contract.input, contract.input_type)
        declarations.add(contract.output, contract.output_type, contract.output_source.value)
        name, takes, returns = contract.name, contract.input_type, contract.output_type
        named = f"Unpack[{takes}]" if input_is_typed_dict else "Any"
        optional = " = ..." if contract.needs_nothing and not input_is_typed_dict else ""
        types = "\n".join(declarations.texts)
        contents_as = '    contents="list",\n' if contract.tool.lists_contents else ""
        is_here = "    is_here=True,\n" if contract.runs_in(Language.PYTHON) else ""
        function = (
            f"@overload\ndef {name}(arguments: {takes}{optional}, /) -> {returns}: ...\n"
            f"@overload\ndef {name}(**named: {named}) -> {returns}: ...\n"
            f"def {name}(arguments: Any = None, /, **named: Any) -> Any:\n"
            f"{docstring(contract.doc, '    ')}"
            f"    return _tool.call(arguments, named)\n"
        )
        definition = (
            "_tool = _Tool(\n"
            f"    server={literal(contract.tool.server)},\n"
            f"    name={literal(contract.tool.name)},\n"
            f"    signature={literal(self.signature(contract))},\n"
            f"    rule={literal(input_rule(contract.input))},\n"
            f"    aliases={literal(_argument_aliases(contract.input.root))},\n"
            f"{contents_as}{is_here}"
            ")\n"
        )
        imports = _imports(types + function, of_skill=contract.tool.skill is not None)
        return f"{_HEADER}{imports}\n\n{types}\n\n{function}\n\n{definition}"

    def stale_skill(self, name: str, version: str, drift: Sequence[str]) -> str:
        return (
            f"{_HEADER}from __future__ import annotations\n\nfrom typing import Any\n\n"
            "from servers._skills import refuse as _refuse\n\n\n"
            f"def {name}(arguments: Any = None, /, **named: Any) -> Any: ...\n\n\n"
            f"_refuse({literal(name)}, {literal(version)}, {literal(list(drift))})\n"
        )

    def server_index(self, modules: Sequence[ToolModule], *, of_skills: bool = False) -> str:
        of_what = "skills" if of_skills else f"tools of the server {modules[0].tool.server!r}" if modules else ""
        about = docstring(f"All {of_what}.") if modules else ""
        imports = "".join(f"    from .{module.name} import {module.name} as {module.name}\n" for module in modules)
        listed = literal([module.name for module in modules])
        return (
            f"{_HEADER}{about}\n"
            f"from {'servers.' if of_skills else '..'}_lazy import load_tools_when_used as _load_tools_when_used\n\n"
            f"TYPE_CHECKING = False\nif TYPE_CHECKING:\n{imports or '    pass'}\n"
            f"__all__ = {listed}\n\n_load_tools_when_used(__name__)\n"
        )

    def discovery(self, names: Names) -> str:
        entries = "".join(
            f"        {literal(server)}: {literal(entry)},\n" for server, entry in directory(names).items()
        )
        return f'''{_HEADER}from __future__ import annotations

from typing import Any

from ._discovery import Directory as _Directory

_directory = _Directory(
    {{
{entries}    }}
)


def list_servers() -> list[str]:
    """The servers whose tools can be imported: `from servers.SERVER import TOOL`."""
    return _directory.servers()


def list_tools(server: str | None = None) -> list[str]:
    """The tools of one server, or all as 'SERVER/TOOL'."""
    return _directory.tools(server)


def search_tools(
    query: str | list[str], *, server: str | None = None, detail: str | None = None, limit: int | None = None
) -> list[dict[str, Any]]:
    """Tools that fit what is wanted, best first; several queries at once are possible."""
    return _directory.search(query, server=server, detail=detail, limit=limit)


def tool_info(server: str, tool: str) -> dict[str, Any]:
    """Everything about one tool: schemas, signatures and an example of a call."""
    return _directory.info(server, tool)


listServers, listTools, searchTools, toolInfo = list_servers, list_tools, search_tools, tool_info
'''

    def import_line(self, contract: Contract) -> str:
        if contract.tool.skill is not None:
            return f"from skills import {contract.name}"
        return f"from servers.{contract.server} import {contract.name}"

    def signature(self, contract: Contract) -> str:
        root = contract.input.root
        fields = sorted(root.fields, key=lambda field: not field.required) if isinstance(root, Record) else ()
        takes_nothing = isinstance(root, Record) and isinstance(root.rest, Never)

        def write(depth: int, pieces: Pieces) -> str:
            parameters = ["*"]
            for field in fields:
                name = field.name if is_keyword_argument(field.name) else literal(field.name)
                spelled = BRIEF.of(field.type, contract.input, depth - 1, pieces)
                parameters.append(f"{name}: {spelled}{'' if field.required else ' = ...'}")
            takes = ", ".join(parameters) if fields else "" if takes_nothing else "**arguments"
            returns = BRIEF.of(contract.output.root, contract.output, depth, pieces)
            return f"{contract.name}({takes}) -> {returns}"

        return short_enough(write) + ("  # observed" if contract.is_observed else "")

    def example_call(self, contract: Contract) -> str:
        arguments = example_arguments(contract)
        passed = literal(arguments)
        if all(map(is_keyword_argument, arguments)):
            passed = ", ".join(f"{name}={literal(value)}" for name, value in arguments.items())
        return f"{self.import_line(contract)}\nresult = {contract.name}({passed})"


def _imports(source: str, *, of_skill: bool) -> str:
    """Import only what the source uses, so that a type checker finds nothing to complain about."""
    code = "".join(line for line in source.splitlines(keepends=True) if not line.lstrip().startswith("#"))
    typing = [name for name in TYPING_NAMES if re.search(rf"\b{name}\b", code)]
    contents = [content.value for content in Content if f"_{content}" in code]
    lines = ["from __future__ import annotations", ""]
    lines += ["import builtins"] if "builtins." in code else []
    library = "servers." if of_skill else ".."
    client = "_skills import Skill" if of_skill else "_client import Tool"
    lines += [f"from typing import {', '.join(typing)}", "", f"from {library}{client} as _Tool"]
    lines += [f"from {library}content import {content} as _{content}" for content in contents]
    return "\n".join(lines)


def _argument_aliases(root: Type) -> dict[str, str]:
    """Map identifiers to arguments that cannot be keywords, such as `from` and `user-id`."""
    names = [field.name for field in root.fields] if isinstance(root, Record) else []
    spelled = [(tool_identifier(name), name) for name in names if not is_attribute_name(name)]
    counts = Counter([*(identifier for identifier, _ in spelled), *names])
    return {identifier: name for identifier, name in spelled if counts[identifier] == 1}

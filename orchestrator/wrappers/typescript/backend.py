"""Writes wrappers in TypeScript."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from orchestrator.domain.execution import Language
from orchestrator.domain.names import Names
from orchestrator.wrappers.backend import ToolModule, directory
from orchestrator.wrappers.contract import Contract, TypeNames
from orchestrator.wrappers.rules import input_rule
from orchestrator.wrappers.signatures import Pieces, example_arguments, short_enough
from orchestrator.wrappers.types import Content
from orchestrator.wrappers.typescript.text import comment, literal
from orchestrator.wrappers.typescript.types import BRIEF, JSON_VALUE, declarations

_HEADER = "// Generated from what the server says about its tools; imported with the ending .js.\n"


class TypescriptBackend:
    index_file = "index.ts"

    def tool_module(self, contract: Contract) -> str:
        names = TypeNames(contract)
        types = [
            *declarations(contract.input, contract.input_type, names),
            *declarations(contract.output, contract.output_type, names, contract.output_source.value),
        ]
        used = set(re.findall(r"\$(\w+)", "".join(types)))
        contents = [name for name in (*Content, JSON_VALUE) if name in used]
        is_skill = contract.tool.skill is not None
        library = "../servers" if is_skill else ".."
        client = f"callSkill as $call, type Skill as $Tool }} from '{library}/_skills.js'"
        if not is_skill:
            client = f"callTool as $call, type Tool as $Tool }} from '{library}/_client.js'"
        imports = "".join(
            f"import type {{ {content} as ${content} }} from '{library}/content.js';\n" for content in contents
        )
        default = " = {}" if contract.needs_nothing else ""
        takes, returns = contract.input_type, contract.output_type
        contents_as = "  contents: 'list',\n" if contract.tool.lists_contents else ""
        contents_as += "  isHere: true,\n" if contract.runs_in(Language.TYPESCRIPT) else ""
        return "\n".join(
            [
                f"{_HEADER}import {{ {client};\n{imports}",
                *types,
                f"{comment(contract.doc)}"
                f"export async function {contract.name}(args: {takes}{default}): Promise<{returns}> {{\n"
                f"  return $call<{returns}>($tool, args);\n"
                "}\n",
                "const $tool: $Tool = {\n"
                f"  server: {literal(contract.tool.server)},\n"
                f"  name: {literal(contract.tool.name)},\n"
                f"  signature: {literal(self.signature(contract))},\n"
                f"  rule: {literal(input_rule(contract.input))},\n"
                f"{contents_as}"
                "};\n",
            ]
        )

    def stale_skill(self, name: str, version: str, drift: Sequence[str]) -> str:
        return (
            f"{_HEADER}import {{ refuse }} from '../servers/_skills.js';\n\n"
            f"export async function {name}(args?: any): Promise<any> {{\n  void args;\n}}\n\n"
            f"refuse({literal(name)}, {literal(version)}, {literal(list(drift))});\n"
        )

    def server_index(self, modules: Sequence[ToolModule], *, of_skills: bool = False) -> str:
        of_what = "skills" if of_skills else f"tools of the server {modules[0].tool.server!r}" if modules else ""
        about = comment(f"All {of_what}.") if modules else ""
        # Two tools, such as get_user and getUser, may have types of the same name; those stay in their own modules.
        counts = Counter(name for module in modules for name in module.types)
        lines = []
        for module in (module for module in modules if any(module.types)):
            exported = [module.name, *(f"type {name}" for name in module.types if counts[name] == 1)]
            lines.append(f"export {{ {', '.join(exported)} }} from './{module.name}.js';\n")
        return f"{_HEADER}{about}{''.join(lines)}"

    def discovery(self, names: Names) -> str:
        entries = "".join(f"  {literal(server)}: {literal(entry)},\n" for server, entry in directory(names).items())
        return f"""{_HEADER}import {{ Directory, type SearchOptions, type ToolSummary }} from './_discovery.js';

const directory = new Directory({{
{entries}}});

/** The servers whose tools can be imported from '/workspace/servers/SERVER/TOOL.js'. */
export async function listServers(): Promise<string[]> {{
  return directory.servers();
}}

/** The tools of one server, or all as 'SERVER/TOOL'. */
export async function listTools(server?: string): Promise<string[]> {{
  return directory.tools(server);
}}

/** Tools that fit what is wanted, best first; several queries at once are possible. */
export async function searchTools(query: string | string[], options: SearchOptions = {{}}): Promise<ToolSummary[]> {{
  return directory.search(query, options);
}}

/** Everything about one tool: schemas, signatures and an example of a call. */
export async function toolInfo(server: string, tool: string): Promise<ToolSummary> {{
  return directory.info(server, tool);
}}
"""

    def import_line(self, contract: Contract) -> str:
        return f"import {{ {contract.name} }} from '{_path(contract)}';"

    def signature(self, contract: Contract) -> str:
        def write(depth: int, pieces: Pieces) -> str:
            takes = BRIEF.of(contract.input.root, contract.input, depth, pieces)
            returns = BRIEF.of(contract.output.root, contract.output, depth, pieces)
            mark = "?" if contract.needs_nothing else ""
            return f"{contract.name}(args{mark}: {takes}): Promise<{returns}>"

        return short_enough(write) + (" /* observed */" if contract.is_observed else "")

    def example_call(self, contract: Contract) -> str:
        name, arguments = contract.name, example_arguments(contract)
        return (
            f'import {{ {name} }} from "{_path(contract)}";\n'
            f"const result = await {name}({literal(arguments) if arguments else ''});"
        )


def _path(contract: Contract) -> str:
    folder = "skills" if contract.tool.skill is not None else f"servers/{contract.server}"
    return f"/workspace/{folder}/{contract.name}.js"

"""A skill as a folder of files: as an Agent Skill, which any agent can read, or as it travels through git. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NoReturn

from orchestrator.domain.access import SKILLS
from orchestrator.domain.errors import InvalidRequest
from orchestrator.domain.execution import Language
from orchestrator.domain.skills import SkillContent, SkillVersion, canonical_json, require_skill_name
from orchestrator.domain.tools import JsonSchema

SKILL_FILE = "SKILL.md"
EXECUTOR = "mcp-code-executor"
COMPATIBILITY = "Needs the MCP server of MCP Code Executor, which has the tools run_skill and execute_code."
# A larger schema is left to its own file: all of SKILL.md is read whenever the skill is used.
MAX_INLINE_SCHEMA_CHARACTERS = 2000
MAX_READABLE_CHARACTERS = 128 * 1024

DESCRIPTION_FILE = "skill.json"
_VERSION = "version"
_CODE = "code"
_MEMBERS: tuple[tuple[str, type, str], ...] = (
    ("name", str, "a text"),
    ("description", str, "a text"),
    ("language", str, "a text"),
    ("input", dict, "a JSON Schema, as an object"),
    ("output", dict, "a JSON Schema, as an object"),
    ("tools", list, "a list of SERVER/TOOL"),
    ("examples", list, "a list of objects with `input`, an object"),
)

# What YAML does not take as it is, or takes for a line break; and a third hyphen in a row, because some readers end
# the front matter at any three.
_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]|(?<=--)-")


@dataclass(frozen=True, slots=True)
class Usage:
    """How a program in one language calls a skill: its typed signature, and a call with its import."""

    signature: str
    example: str


@dataclass(frozen=True, slots=True)
class AgentSkill:
    """A folder after the specification of agentskills.io."""

    name: str  # of the folder too
    front_matter: Mapping[str, Any]  # as SKILL.md has it
    files: Mapping[str, str]  # by their paths, which begin with the folder


@dataclass(frozen=True, slots=True)
class ImportedSkill:
    """A skill that was read from a folder, and the version that the folder says it is."""

    content: SkillContent
    version: str
    stated_version: str | None  # None of a skill that was written by hand

    @property
    def was_changed(self) -> bool:
        """Tell whether somebody edited it after it was exported, which makes a new version of it."""
        return self.stated_version not in (None, self.version)


def digest(text: str) -> str:
    """Name a file's content by its hash, as the Skills extension of MCP does."""
    return f"sha256:{sha256(text.encode()).hexdigest()}"


def agent_skill_name(name: str) -> str:
    """Return the name under which agents know a skill: theirs have hyphens."""
    return name.replace("_", "-")


def agent_skill(version: SkillVersion, usages: Mapping[Language, Usage] | None = None) -> AgentSkill:
    """Write a skill as a folder that tells a model how to use it through the executor.

    Without the usages of the languages, the examples have no types.
    """
    content = version.content
    name = agent_skill_name(content.name)
    front_matter = {
        "name": name,
        "description": content.description,
        "compatibility": COMPATIBILITY,
        "metadata": {
            "executor": EXECUTOR,
            "skill": content.name,
            "version": version.version,
            "language": content.language.value,
            "state": version.effective_state.value,
            "tools": " ".join(content.tools),
        },
    }
    script = f"scripts/{content.name}{content.language.suffix}"
    files = {
        SKILL_FILE: f"---\n{_yaml(front_matter)}---\n\n{_instructions(content, script, usages or {})}",
        script: content.code,
        "references/input.schema.json": _readable(content.input),
        "references/output.schema.json": _readable(content.output),
    }
    return AgentSkill(name, front_matter, {f"{name}/{path}": text for path, text in files.items()})


def exported(content: SkillContent) -> dict[str, str]:
    """Write a skill as files for git. Write them without changing line ends: they are part of the version."""
    document = content.as_document()
    code = document.pop(_CODE)
    return {
        f"{content.name}/{DESCRIPTION_FILE}": _json({**document, _VERSION: content.version}),
        f"{content.name}/{_code_file(content.language)}": code,
    }


def imported(files: Mapping[str, str]) -> ImportedSkill:
    """Read the folder of one exported skill; what else is in it, such as a README, is ignored.

    Raise InvalidRequest where the files are not such a folder. Whether the skill can be saved is not decided here.
    """
    descriptions = [path for path in files if path.rpartition("/")[2] == DESCRIPTION_FILE]
    if len(descriptions) != 1:
        raise InvalidRequest(f"The folder of a skill must have one {DESCRIPTION_FILE}, not {len(descriptions)}.")
    description = descriptions[0]
    folder = description.removesuffix(DESCRIPTION_FILE)
    document = _checked(description, files[description])
    stated_version = document.pop(_VERSION, None)
    if folder.split("/")[-2:] != [document["name"], ""]:
        raise InvalidRequest(f"{description} must be in a folder with the name of the skill, {document['name']}.")
    code_file = folder + _code_file(Language(document["language"]))
    if code_file not in files:
        raise InvalidRequest(f"The code of the skill {document['name']} must be in {code_file}.")
    content = SkillContent.from_document({**document, _CODE: files[code_file]})
    try:
        return ImportedSkill(content, content.version, stated_version)
    except (ValueError, RecursionError) as error:  # JSON can spell half of a character, and 1e999
        raise InvalidRequest(
            f"The skill {content.name} must have only text that UTF-8 can write and finite numbers, not nested deeply."
        ) from error


def _instructions(content: SkillContent, script: str, usages: Mapping[Language, Usage]) -> str:
    name = content.name
    # Sorted as in what is hashed, so that one version always has the same instructions.
    example = json.loads(canonical_json(content.examples[0])) if content.examples else {}
    argument = json.dumps(example, ensure_ascii=False)
    such_as = ", such as" if content.examples else " below, in place of {}"
    calls = f"It calls {', '.join(f'`{path}`' for path in content.tools)}." if content.tools else "It calls no tools."
    typescript = usages.get(Language.TYPESCRIPT) or _untyped(Language.TYPESCRIPT, name, example)
    python = usages.get(Language.PYTHON) or _untyped(Language.PYTHON, name, example)
    parts = [
        f"# {name}",
        " ".join(content.description.split()),
        f"This is a function that MCP Code Executor runs in a sandbox of its own, where its tools are. {calls} Use it "
        f"in one of the two ways below. [{script}]({script}) is its code, for reading: it runs only inside the "
        "executor.",
        "## Run it with the MCP tool `run_skill`",
        f"Call `run_skill` with an `input` that fits the schema{such_as}:",
        _fenced("json", f'{{"name": "{name}", "input": {argument}}}\n'),
        "## Use it in a program, with the MCP tool `execute_code`",
        "In TypeScript:",
        _fenced("typescript", _program("//", typescript)),
        "In Python:",
        _fenced("python", _program("#", python)),
        _schema_section("Input", "references/input.schema.json", content.input),
        _schema_section("Output", "references/output.schema.json", content.output),
    ]
    return "\n\n".join(parts) + "\n"


def _untyped(language: Language, name: str, example: Mapping[str, Any]) -> Usage:
    if language is Language.PYTHON:
        return Usage("", f"from {SKILLS} import {name}\n\nresult = {name}({example!r})")
    argument = json.dumps(example, ensure_ascii=False)
    return Usage(
        "", f"import {{ {name} }} from '/workspace/{SKILLS}/{name}.js';\n\nconst result = await {name}({argument});"
    )


def _program(comment: str, usage: Usage) -> str:
    signature = [f"{comment} {line}" for line in usage.signature.splitlines()]
    return "\n".join((*signature, usage.example)) + "\n"


def _schema_section(title: str, path: str, schema: JsonSchema) -> str:
    text = _readable(schema)
    shown = f"\n\n{_fenced('json', text)}" if len(text) <= MAX_INLINE_SCHEMA_CHARACTERS else ""
    return f"## {title}\n\nIts JSON Schema is [{path}]({path}){':' if shown else '.'}{shown}"


def _fenced(language: str, text: str) -> str:
    # Longer than any fence in the text, which would end this one.
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`{3,}", text))])
    return f"{fence}{language}\n{text}{fence}"


def _yaml(mapping: Mapping[str, Any], indent: str = "") -> str:
    """Write strings, and mappings of strings, as YAML: a string in JSON is one in YAML too."""
    lines = []
    for key, value in mapping.items():
        if isinstance(value, Mapping):
            lines.append(f"{indent}{key}:\n{_yaml(value, indent + '  ')}")
        else:
            spelled = json.dumps(value, ensure_ascii=False)  # YAML joins no two escapes into one character
            spelled = _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", spelled)
            lines.append(f"{indent}{key}: {spelled}\n")
    return "".join(lines)


def _readable(value: Any) -> str:
    """Write JSON over many lines, unless it is nested so deeply that this is mostly white space."""
    text = _json(value)
    return text if len(text) <= MAX_READABLE_CHARACTERS else f"{canonical_json(value).decode()}\n"


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _code_file(language: Language) -> str:
    return f"{_CODE}{language.suffix}"


def _checked(path: str, text: str) -> dict[str, Any]:
    """Return what is in skill.json when it has all that a skill has, each of the right kind."""

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not JSON")

    try:
        document = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{path} must be JSON: {error}.") from error
    if not isinstance(document, dict):
        raise InvalidRequest(f"{path} must be a JSON object.")
    for name, kind, words in _MEMBERS:
        if not isinstance(document.get(name), kind):
            raise InvalidRequest(f"`{name}` in {path} must be {words}.")
    if unknown := sorted(document.keys() - {name for name, _, _ in _MEMBERS} - {_VERSION}):
        raise InvalidRequest(f"{path} must not have `{unknown[0]}`, which is no part of a skill.")
    require_skill_name(document["name"])
    if document["language"] not in list(Language):
        raise InvalidRequest(f"`language` in {path} must be {' or '.join(Language)}.")
    if not all(isinstance(tool, str) for tool in document["tools"]):
        raise InvalidRequest(f"`tools` in {path} must be a list of SERVER/TOOL.")
    if not all(isinstance(one, dict) and isinstance(one.get("input"), dict) for one in document["examples"]):
        raise InvalidRequest(f"`examples` in {path} must be a list of objects with `input`, an object.")
    if not isinstance(document.get(_VERSION, ""), str):
        raise InvalidRequest(f"`{_VERSION}` in {path} must be a text; leave it out of a skill that was never exported.")
    return document

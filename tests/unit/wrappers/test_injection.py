"""Text of strangers stays text, whatever it contains."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.domain.execution import Language
from orchestrator.domain.tools import Tool
from orchestrator.wrappers import generate
from tests.unit.client_library.workspace import Workspace, node
from tests.unit.wrappers.backends import example_call, signature

FRAGMENTS = [
    "*/", "/*", "//", "*\\/", '"""', "'''", '"', "'", "`", "${x}", "\\", "\\u002a/", "\\x", "\n", "\r",
    "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\x00", "\ud800", "\udfff", "\u202e", "\ufeff", "#", "é", "😀",
    "# coding: rot13", "@ts-nocheck", "<!--", "-->", "{@link x}", "\nimport os\n", "*/ globalThis.pwned = 1; /*",
    "\\N{DIGIT ONE}",
    '""" + exit() + """',
]  # fmt: skip

hostile = st.lists(st.sampled_from(FRAGMENTS) | st.text(st.characters(exclude_categories=[]), max_size=3)).map("".join)

BENIGN = "benign"


def tool_with(text: str, *, names: bool = False) -> Tool:
    """With the text everywhere; a name ends so that no text makes an identifier of it."""
    key = f"{text}-" if names else "key-"
    value = {
        "description": text, "title": text, "default": text, "examples": [text], "pattern": text, "format": text,
        "enum": [f"{text}!", 1], "type": text,
    }  # fmt: skip
    schema = {
        "description": text,
        "properties": {key: value, "odd": {"type": text}, "ref": {"$ref": f"#/{text}-"}, "one": {"const": f"{text}!"}},
        "required": [key],
    }
    return Tool("s", "t", text, schema, {"properties": {"outer": schema}}, title=text)


def typescript_skeleton(source: str) -> str:
    """What is left without comments and the contents of strings."""
    token = re.compile(
        r"//[^\n\r\u2028\u2029]*|/\*.*?\*/|\"(?:\\[^\n]|[^\"\\\n])*\"|'(?:\\[^\n]|[^'\\\n])*'", re.DOTALL
    )
    return "\n".join(
        stripped
        for line in token.sub(lambda found: "" if found[0][0] == "/" else '""', source).splitlines()
        if (stripped := line.strip())
    )


def python_skeleton(source: str) -> str:
    tree = ast.parse(source.encode())
    for part in ast.walk(tree):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            part.value = ""
    return ast.dump(tree)


@given(hostile)
@settings(max_examples=300, deadline=None)
def test_text_does_not_change_the_structure(text: str) -> None:
    files, benign = generate([tool_with(text)]).files, generate([tool_with(BENIGN)]).files
    assert typescript_skeleton(files["servers/s/t.ts"]) == typescript_skeleton(benign["servers/s/t.ts"])
    assert python_skeleton(files["servers/s/t.py"]) == python_skeleton(benign["servers/s/t.py"])


@given(hostile)
@settings(max_examples=300, deadline=None)
def test_names_of_properties_do_not_change_the_structure(text: str) -> None:
    files, benign = generate([tool_with(text, names=True)]).files, generate([tool_with(BENIGN, names=True)]).files
    assert typescript_skeleton(files["servers/s/t.ts"]) == typescript_skeleton(benign["servers/s/t.ts"])
    compile(files["servers/s/t.py"], "t.py", "exec", dont_inherit=True)


@pytest.mark.parametrize("text", ["*/ x = 1; /*", '"; x = 1; "', "\nx = 1\n"])
def test_skeletons_would_show_an_injection(text: str) -> None:
    files = generate([tool_with(BENIGN)]).files
    assert typescript_skeleton(files["servers/s/t.ts"].replace(BENIGN, text)) != typescript_skeleton(
        files["servers/s/t.ts"]
    )


@given(hostile, hostile)
@settings(max_examples=200, deadline=None)
def test_names_of_servers_and_tools_arrive_unchanged(server: str, name: str) -> None:
    files = generate([Tool(server, name)]).files
    (path,) = [path for path in files if path.endswith(".py") and path.count("/") == 2 and "__init__.py" not in path]
    calls = [part for part in ast.walk(ast.parse(files[path])) if isinstance(part, ast.Call)]
    given_names = {word.arg: word.value for call in calls for word in call.keywords}
    assert ast.literal_eval(given_names["server"]) == server
    assert ast.literal_eval(given_names["name"]) == name
    for each in files:
        if each.endswith(".py"):
            compile(files[each], each, "exec", dont_inherit=True)


@given(hostile, st.sampled_from(Language))
@settings(max_examples=200, deadline=None)
def test_signature_and_example_stay_on_their_lines(text: str, language: Language) -> None:
    tool = tool_with(text, names=True)
    assert len(signature(tool, language).splitlines()) == 1
    assert len(example_call(tool, language).splitlines()) == 2


schema_words = st.sampled_from(
    ["type", "properties", "required", "items", "prefixItems", "anyOf", "oneOf", "allOf", "enum", "const", "$ref",
     "$defs", "additionalProperties", "patternProperties", "description", "default", "nullable", "not", "examples"]
)  # fmt: skip
schema_leaves = (
    st.sampled_from(["string", "number", "integer", "boolean", "null", "object", "array", "#", "#/$defs/a"])
    | st.none() | st.booleans() | st.integers() | st.floats() | hostile
)  # fmt: skip
keys = st.sampled_from(["a", "b", "list", "class", "a-b", "__proto__"]) | hostile


def larger_schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    objects = st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(keys, inner, max_size=4)},
        optional={"required": st.lists(keys, max_size=3), "$defs": st.dictionaries(keys, inner, max_size=2)},
    )
    arrays = st.fixed_dictionaries({"type": st.just("array"), "items": inner})
    unions = st.fixed_dictionaries({}, optional={w: st.lists(inner, max_size=3) for w in ("anyOf", "oneOf", "allOf")})
    return objects | arrays | unions | st.dictionaries(schema_words, inner, max_size=4) | st.lists(inner, max_size=3)


simple = st.sampled_from(["string", "number", "integer", "boolean", "null"]).map(lambda name: {"type": name})
enumerations = st.lists(schema_leaves, max_size=4).map(lambda values: {"enum": values})
references = st.sampled_from(["#", "#/$defs/a", "#/properties/a"]).map(lambda pointer: {"$ref": pointer})
schemas = st.recursive(simple | enumerations | references | schema_leaves, larger_schemas, max_leaves=25)

fuzz = settings(
    max_examples=400, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


@pytest.fixture(scope="module")
def parse_typescript() -> Iterator[Callable[[str], str]]:
    """Parses with the same parser as the sandbox, and then with V8; answers with the error, if any."""
    script = """
        const { stripTypeScriptTypes } = require('node:module');
        const { SourceTextModule } = require('node:vm');
        require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
          let answer = '';
          try {
            new SourceTextModule(stripTypeScriptTypes(JSON.parse(line)));
          } catch (error) {
            answer = String(error);
          }
          console.log(JSON.stringify(answer));
        });
    """
    command = [node(), "--experimental-vm-modules", "--disable-warning=ExperimentalWarning", "-e", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        stdin, stdout = process.stdin, process.stdout

        def parse(source: str) -> str:
            stdin.write(json.dumps(source) + "\n")
            stdin.flush()
            return str(json.loads(stdout.readline()))

        assert parse("const broken = ;") != ""
        yield parse
        stdin.close()


def test_generated_typescript_always_parses(parse_typescript: Callable[[str], str]) -> None:
    @fuzz
    @given(schemas, hostile)
    def check(schema: Any, text: str) -> None:
        files = generate([Tool("s", "t", text, schema, schema), tool_with(text, names=True), Tool(text, text)]).files
        for path, source in files.items():
            if path.endswith(".ts"):
                assert parse_typescript(source) == "", source

    check()


def test_no_schema_fails_and_all_satisfy_the_compilers(workspace: Workspace) -> None:
    tools: list[Tool] = []

    @fuzz
    @given(schemas)
    def collect(schema: Any) -> None:
        tools.append(Tool("s", f"t{len(tools)}", input_schema=schema, output_schema=schema))

    collect()
    assert len(tools) >= 200
    workspace.add_tools(*tools)
    assert workspace.check_typescript() == ""
    assert workspace.check_python() == ""

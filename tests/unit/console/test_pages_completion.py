"""What the editor offers while one types."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.domain.names import server_identifier, tool_identifier
from tests.unit.console.javascript import ask

pytestmark = pytest.mark.processes

LISTING = {
    "tools": {
        "postgres": {"execute_sql": "Run a statement.", "list": "List tables."},
        "my-crm": {"find-customers": "Find customers.", "list": "List customers."},
    }
}
SCHEMA = {
    "properties": {"text": {"type": "string", "description": "A name."}, "max items": {"type": ["integer", "null"]}},
    "required": ["text"],
}
COMPLETE = """module.completions({
    text: text.replace('|', ''), position: text.indexOf('|') < 0 ? text.length : text.indexOf('|'), explicit, language,
    wrappers: module.wrappersOf(listing), schemaOf: async () => schema,
})"""


def offered(text: str, language: str, *, explicit: bool = False) -> Any:
    return ask(
        "editor/wrappers.js", COMPLETE, text=text, language=language, explicit=explicit, listing=LISTING, schema=SCHEMA
    )


def labels(text: str, language: str) -> list[str]:
    found = offered(text, language)
    return [option["label"] for option in found["options"]] if found else []


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("python", "from servers.", ["postgres", "my_crm"]),
        ("python", "from servers import po", ["postgres", "my_crm"]),
        ("python", "from servers.my_crm import find", ["find_customers", "list"]),
        ("python", "from servers import my_crm\nmy_crm.", ["find_customers", "list"]),
        ("python", "find_customers(", ["text", "max items"]),
        ("python", "print(find_customers(text='(', ", ["max items"]),
        ("python", "find_customers(|, text='a')", ["max items"]),
        ("typescript", "import { x } from '/", ["/workspace/servers/postgres/", "/workspace/servers/my_crm/"]),
        ("typescript", "import { x } from '/workspace/servers/my_crm/f", ["find_customers.js", "list.js"]),
        ("typescript", "await find_customers({ ", ["text", "max items"]),
        ("typescript", "await find_customers({\n  text: `}`,\n  ", ["max items"]),
        ("typescript", "await find_customers({ 'max items': f({ text: 1 }), ", ["text"]),
        ("typescript", "await find_customers({ |, text })", ["max items"]),
    ],
)
def test_servers_tools_and_arguments_are_offered_where_they_fit(language: str, text: str, expected: list[str]) -> None:
    assert labels(text, language) == expected


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("python", "print('exe"),
        ("python", "# exe"),
        ("python", "value.exe"),
        ("python", "find_customers(text="),
        ("typescript", "// exe"),
        ("typescript", "/* exe"),
        ("typescript", "`exe"),
        ("typescript", "await find_customers({ text: "),
        ("typescript", "const x = { "),
    ],
)
def test_nothing_is_offered_in_texts_comments_and_values(language: str, text: str) -> None:
    assert labels(text, language) == []


def test_required_arguments_come_first_and_are_written_as_the_language_wants_them() -> None:
    text, other = offered("await find_customers({ ", "typescript")["options"]
    assert (text["insert"], text["detail"], text["info"]) == ("text: ", "string", "A name.")
    assert (other["insert"], other["detail"]) == ('"max items": ', "integer | null, optional")
    assert text["boost"] > other["boost"]
    assert offered("find_customers(", "python")["options"][0]["insert"] == "text="


@pytest.mark.parametrize(
    ("before", "inserted"),
    [
        ("const rows = ", "await execute_sql({  })"),
        ("console.log(", "await execute_sql({  })"),
        ("const rows = await ", "execute_sql({  })"),
        ("names.map((name) => ", "execute_sql({  })"),
        ("await Promise.all([", "execute_sql({  })"),
    ],
)
def test_a_call_in_typescript_is_awaited_where_it_has_to_be(before: str, inserted: str) -> None:
    option = offered(f"{before}exe", "typescript")["options"][0]
    assert option["insert"] == inserted
    assert inserted[option["cursor"] - 2 :] == "{  })"


def test_two_tools_of_one_name_are_told_apart_by_what_the_program_imports() -> None:
    call = "module.calledTool(text, {name: 'list'}, module.wrappersOf(listing), 'python')?.server ?? null"
    assert ask("editor/wrappers.js", call, text="", listing=LISTING) is None
    assert ask("editor/wrappers.js", call, text="from servers.my_crm import list\n", listing=LISTING) == "my-crm"


@pytest.mark.parametrize(
    ("language", "text", "after"),
    [
        ("python", "exe", "from servers.postgres import execute_sql\n\nexe"),
        ("python", "import json\n\nexe", "import json\nfrom servers.postgres import execute_sql\n\nexe"),
        ("python", "from servers.postgres import list, execute_sql\nexe", None),
        ("typescript", "exe", "import { execute_sql } from '/workspace/servers/postgres/execute_sql.js';\n\nexe"),
        ("typescript", "import { execute_sql } from '/workspace/servers/postgres/index.js';\nexe", None),
    ],
)
def test_a_tool_is_imported_once_beside_the_other_imports(language: str, text: str, after: str | None) -> None:
    added = ask(
        "editor/wrappers.js",
        "module.missingImport(text, module.wrappersOf(listing)[0], language)",
        text=text,
        language=language,
        listing=LISTING,
    )
    if after is None:
        assert added is None
    else:
        assert text[: added["at"]] + added["line"] + text[added["at"] :] == after


NAMES = [
    *("get-weather", "read.file", "a b", "index", "Index", "errors"),
    *("3d", "class", "then", "__init__", "__", "", "größe", "\ufb01le"),
]


def test_names_are_spelled_as_the_daemon_spells_them() -> None:
    spelled = ask(
        "editor/identifiers.js",
        "names.map((each) => [module.serverIdentifier(each), module.toolIdentifier(each)])",
        names=NAMES,
    )
    assert spelled == [[server_identifier(name), tool_identifier(name)] for name in NAMES]


def test_a_name_whose_identifier_needs_a_hash_is_not_offered() -> None:
    assert ask("editor/identifiers.js", "module.toolIdentifier('x'.repeat(61))") is None
    assert ask("editor/wrappers.js", "module.wrappersOf({tools: {a: {['x'.repeat(61)]: ''}}})") == []


def test_the_example_of_a_tool_becomes_a_program_that_shows_its_result() -> None:
    info = {"python": {"example": "result = f()"}, "typescript": {"example": "const result = await f();"}}
    made = "[module.exampleProgram(info, 'python'), module.exampleProgram(info, 'typescript')]"
    python, typescript = ask("editor/programs.js", made, info=info)
    assert python == "result = f()\nprint(result)\n"
    assert typescript == "const result = await f();\nconsole.log(result);\n"


def test_a_language_that_nobody_knows_is_none() -> None:
    assert ask("editor/programs.js", "['python', 'ruby', 'constructor', null].map(module.languageOf)") == [
        "python", None, None, None,
    ]  # fmt: skip

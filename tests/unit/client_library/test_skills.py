"""Programs that call skills in their own language, and skills as whole programs."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from orchestrator.domain.execution import Language
from orchestrator.domain.tools import SkillTraits, Tool
from orchestrator.wrappers.generator import WrapperGenerator
from tests.unit.client_library.gateway import Gateway
from tests.unit.client_library.workspace import Workspace

ENDED = "skills/first: The skill ended its program instead of returning a result."
# A skill that returns what another does.
CALLING = {
    Language.PYTHON: "from skills import {0}\ndef run(input):\n    return {0}()\n",
    Language.TYPESCRIPT: "import {{ {0} }} from '/workspace/skills/{0}.js';\nexport default () => {0}({{}});\n",
}
RETURNING = {
    Language.PYTHON: "def run(input):\n    return 'done'\n",
    Language.TYPESCRIPT: "export default () => 'done';\n",
}
FAILING = {
    Language.PYTHON: "def run(input):\n    raise ValueError('No.')\n",
    Language.TYPESCRIPT: "export default () => { throw new Error('No.'); };\n",
}
# Programs that print what the first skill returned, or why it did not.
OUTCOME = {
    Language.PYTHON: (
        "import json\nfrom servers.errors import SkillError\nfrom skills import first\n"
        "try:\n    print(json.dumps(first()))\nexcept SkillError as error:\n    print(error)\n"
    ),
    Language.TYPESCRIPT: (
        "import { SkillError } from '/workspace/servers/errors.js';\n"
        "import { first } from '/workspace/skills/first.js';\n"
        "try {\n  console.log(JSON.stringify(await first({})));\n"
        "} catch (error) {\n  if (!(error instanceof SkillError)) throw error;\n  console.log(error.message);\n}\n"
    ),
}
ANSWER = {
    Language.PYTHON: "from servers._skills import answer\nanswer('first', '{}')\n",
    Language.TYPESCRIPT: "import { answer } from '/workspace/servers/_skills.js';\nawait answer('first', '{}');\n",
}


@dataclass(frozen=True)
class Place:
    language: Language
    workspace: Workspace
    gateway: Gateway

    def add(self, skills: dict[str, str], *others: str) -> None:
        """Add skills with their code, and others in the other language."""
        (other,) = set(Language) - {self.language}
        tools = [_skill(name, self.language) for name in skills] + [_skill(name, other) for name in others]
        self.workspace.add_tools()
        files = WrapperGenerator().skill_files(tools)
        files |= {f"skills/_code/{name}{self.language.suffix}": code for name, code in skills.items()}
        for path, text in files.items():
            target = self.workspace.path / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(self._at_home(text))

    def run(self, program: str, **environment: str) -> subprocess.CompletedProcess[str]:
        given = {**self.gateway.environment, **environment}
        if self.language is Language.PYTHON:
            return self.workspace.run_python(program, given)
        return self.workspace.run_typescript(self._at_home(program), given)

    def output(self, program: str, **environment: str) -> str:
        completed = self.run(program, **environment)
        assert (completed.stderr, completed.returncode) == ("", 0)
        return completed.stdout.strip()

    def requests(self, path: str) -> list[Any]:
        return [request.body for request in self.gateway.requests if request.path == path]

    def _at_home(self, text: str) -> str:
        return text.replace("/workspace/", f"{self.workspace.path}/")


def _skill(name: str, language: Language) -> Tool:
    return Tool("skills", name, input_schema={"type": "object"}, skill=SkillTraits("1" * 64, language, ()))


@pytest.fixture(params=list(Language))
def place(request: pytest.FixtureRequest, workspace: Workspace, gateway: Gateway) -> Place:
    return Place(request.param, workspace, gateway)


@pytest.fixture
def python(workspace: Workspace, gateway: Gateway) -> Place:
    return Place(Language.PYTHON, workspace, gateway)


@pytest.fixture
def typescript(workspace: Workspace, gateway: Gateway) -> Place:
    return Place(Language.TYPESCRIPT, workspace, gateway)


def chain(place: Place, *names: str, end: str | None = None) -> dict[str, str]:
    """Write skills that each call the next."""
    calls = {name: CALLING[place.language].format(called) for name, called in pairwise(names)}
    return {**calls, names[-1]: CALLING[place.language].format(end) if end else RETURNING[place.language]}


# How far skills may call each other.


def test_skills_may_be_three_deep(place: Place) -> None:
    place.add(chain(place, "first", "second", "third"))
    assert json.loads(place.output(OUTCOME[place.language])) == "done"


def test_skills_are_not_four_deep(place: Place) -> None:
    place.add(chain(place, "first", "second", "third", "fourth"))
    told = "skills/fourth: Skills may be at most 3 deep: first → second → third → fourth."
    assert place.output(OUTCOME[place.language]) == told


def test_a_skill_does_not_call_itself(place: Place) -> None:
    place.add(chain(place, "first", "second", end="first"))
    told = "skills/first: Skills must not call themselves: first → second → first."
    assert place.output(OUTCOME[place.language]) == told


@pytest.mark.parametrize(
    ("around", "outcome"),
    [
        ("one two", '"done"'),
        ("one two three", "skills/first: Skills may be at most 3 deep: one → two → three → first."),
        ("first two", "skills/first: Skills must not call themselves: first → two → first."),
    ],
)
def test_skills_that_wait_for_this_sandbox_count(place: Place, around: str, outcome: str) -> None:
    place.add(chain(place, "first"))
    assert place.output(OUTCOME[place.language], CODE_EXECUTOR_SKILLS_AROUND=around) == outcome


def test_a_skill_in_the_other_language_is_refused_before_it_is_called(place: Place) -> None:
    place.add({}, "first")
    told = "skills/first: Skills must not call themselves: first → two → first."
    assert place.output(OUTCOME[place.language], CODE_EXECUTOR_SKILLS_AROUND="first two") == told
    assert place.requests("/call") == []


def test_a_skill_in_the_other_language_is_called_through_the_gateway(place: Place) -> None:
    place.add({}, "first")
    assert place.output(OUTCOME[place.language]) == '"ok"'
    assert place.requests("/call") == [{"server": "skills", "tool": "first", "arguments": {}}]


# What is given and returned.


def test_a_python_result_is_what_json_makes_of_it(python: Place) -> None:
    python.add({"first": "def run(input):\n    return {'pair': (1, 2), 3: True}\n"})
    assert python.output("from skills import first\nprint(first())") == "{'pair': [1, 2], '3': True}"


def test_a_typescript_result_is_what_json_makes_of_it(typescript: Place) -> None:
    typescript.add(
        {"first": "export default () => ({ at: new Date(0), nothing: undefined, none: [NaN, undefined] });\n"}
    )
    program = "import { first } from '/workspace/skills/first.js';\nconsole.log(await first({}));"
    assert typescript.output(program) == "{ at: '1970-01-01T00:00:00.000Z', none: [ null, null ] }"


def test_a_typescript_skill_that_returns_nothing_returns_null(typescript: Place) -> None:
    typescript.add({"first": "export default () => {};\n"})
    assert typescript.output(OUTCOME[typescript.language]) == "null"


@pytest.mark.parametrize(
    ("language", "code"),
    [
        (Language.PYTHON, "def run(input):\n    return {1, 2}\n"),
        (Language.PYTHON, "def run(input):\n    return float('nan')\n"),
        (Language.TYPESCRIPT, "export default () => 1n;\n"),
        (Language.TYPESCRIPT, "const a: any = {};\na.a = a;\nexport default () => a;\n"),
    ],
)
def test_a_result_that_is_not_json_is_an_error(
    language: Language, code: str, workspace: Workspace, gateway: Gateway
) -> None:
    place = Place(language, workspace, gateway)
    place.add({"first": code})
    assert "JSON: " in place.output(OUTCOME[language])
    assert place.requests("/used") == [{"skill": "first", "failed": False}, {"skill": "first", "failed": True}]


def test_a_python_caller_may_change_what_it_got(python: Place) -> None:
    python.add({"first": "KEPT = [1]\ndef run(input):\n    input['list'].append(2)\n    return KEPT\n"})
    program = "from skills import first\ngiven = []\nfirst(list=given).append(2)\nprint(first(list=given), given)"
    assert python.output(program) == "[1] []"


def test_a_typescript_caller_may_change_what_it_got(typescript: Place) -> None:
    typescript.add({"first": "const kept = [1];\nexport default (input) => { input.list.push(2); return kept; };\n"})
    program = (
        "import { first } from '/workspace/skills/first.js';\n"
        "const given = [];\n"
        "((await first({ list: given })) as any).push(2);\n"
        "console.log(JSON.stringify([await first({ list: given }), given]));\n"
    )
    assert json.loads(typescript.output(program)) == [[1], []]


# How a skill ends.


@pytest.mark.parametrize(
    "code",
    [
        "import sys\ndef run(input):\n    sys.exit(0)\n",
        "async def run(input):\n    raise SystemExit\n",
        "raise SystemExit(3)\ndef run(input):\n    return 1\n",
    ],
)
def test_a_python_skill_that_exits_has_failed(python: Place, code: str) -> None:
    python.add({"first": code})
    assert python.output(OUTCOME[python.language]) == ENDED
    assert python.requests("/used") == [{"skill": "first", "failed": False}, {"skill": "first", "failed": True}]


@pytest.mark.parametrize("ending", ["sys.exit()", "sys.exit(0)", "raise SystemExit('Bye.')"])
def test_a_python_skill_that_exits_as_a_whole_program_has_failed(python: Place, ending: str) -> None:
    python.add({"first": f"import sys\ndef run(input):\n    {ending}\n"})
    completed = python.run(ANSWER[python.language], CODE_EXECUTOR_RETURNS="1")
    assert (completed.returncode, completed.stdout, python.requests("/return")) == (1, "", [])
    assert completed.stderr.endswith(f"SkillError: {ENDED}\n")


def test_a_python_skill_that_exits_fails_in_an_event_loop(python: Place) -> None:
    python.add({"first": "import sys\ndef run(input):\n    sys.exit(0)\n"})
    program = (
        "import asyncio\nfrom servers.errors import SkillError\nfrom skills import first\n"
        "async def main():\n"
        "    try:\n        await first()\n    except SkillError as error:\n        print(error)\n"
        "asyncio.run(main())\n"
    )
    assert python.output(program) == ENDED


def test_a_failure_is_counted_once(place: Place) -> None:
    place.add({"first": FAILING[place.language]})
    program = {
        Language.PYTHON: (
            "from skills import first\n"
            "for _ in range(2):\n    try:\n        first()\n    except ValueError as error:\n        print(error)\n"
        ),
        Language.TYPESCRIPT: (
            "import { first } from '/workspace/skills/first.js';\n"
            "for (const _ of [1, 2]) await first({}).catch((error) => console.log(error.message));\n"
        ),
    }
    assert place.output(program[place.language]).split() == ["No.", "No."]
    assert place.requests("/used") == [{"skill": "first", "failed": False}, {"skill": "first", "failed": True}]


@pytest.mark.parametrize(
    "code",
    [
        "import functools\ndef either(a, input):\n    return a\nrun = functools.partial(either, 'done')\n",
        "class Run:\n    def __call__(self, input):\n        return 'done'\nrun = Run()\n",
        "import functools\n@functools.cache\ndef inner():\n    return 'done'\nrun = lambda input: inner()\n",
        "import functools\nasync def run(a, input):\n    return a\nrun = functools.partial(run, 'done')\n",
        "import asyncio\nasync def run(input):\n    return await asyncio.sleep(0, 'done')\n",
        "import asyncio\nclass Later:\n    def __await__(self):\n        return asyncio.sleep(0, 'done').__await__()\n"
        "def run(input):\n    return Later()\n",
    ],
)
def test_a_python_skill_may_be_anything_that_can_be_called(python: Place, code: str) -> None:
    python.add({"first": code})
    assert json.loads(python.output(OUTCOME[python.language])) == "done"


def test_a_whole_program_prints_or_returns_its_result(place: Place) -> None:
    place.add(chain(place, "first"))
    assert place.output(ANSWER[place.language]) == "done"
    assert place.requests("/return") == []
    assert place.output(ANSWER[place.language], CODE_EXECUTOR_RETURNS="the result") == ""
    assert place.requests("/return") == [{"value": "done", "files": {}}]

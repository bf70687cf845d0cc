"""A skill's code is checked as a program is, by the program that the daemon sends into a sandbox."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.runner.checked import environment, make_workspace, sample_tools
from tests.unit.runner.supervised import RUNNER

pytestmark = pytest.mark.processes

CHECK = RUNNER.parent / "skill-programs" / "check.py"
SKILLS = {
    "python": "from servers.filesystem import read_text_file\n\n\n"
    "def run(input: dict) -> dict:\n    return {'text': read_text_file(path=input['path'])['content']}\n",
    "typescript": "import { read_text_file } from './servers/filesystem/index.js';\n\n"
    "export default async function run(input: { path: string }): Promise<{ text: string }> {\n"
    "  return { text: (await read_text_file({ path: input.path })).content };\n}\n",
}
LANGUAGES = sorted(SKILLS)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("workspace")
    make_workspace(path, sample_tools())
    return path


def mistakes_in(workspace: Path, language: str, code: str) -> list[dict[str, Any]]:
    request = workspace / "request.json"
    request.write_text(json.dumps({"language": language, "code": code}))
    told = {
        "SKILL_REQUEST": str(request),
        "SKILL_WORKSPACE": str(workspace),
        "CODE_EXECUTOR_CHECKER": str(RUNNER / "checker.py"),
    }
    env = {**environment(), **told}
    ended = subprocess.run([sys.executable, str(CHECK)], env=env, capture_output=True, timeout=100)
    assert (ended.returncode, ended.stderr) == (0, b"")
    found: list[dict[str, Any]] = json.loads(ended.stdout)["mistakes"]
    return found


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_skill_that_is_right_has_no_mistakes(workspace: Path, language: str) -> None:
    assert mistakes_in(workspace, language, SKILLS[language]) == []


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_mistake_is_told_with_its_place_in_the_skill(workspace: Path, language: str, line_end: str) -> None:
    wrong = SKILLS[language].replace("path=input", "pth=input").replace("{ path: input", "{ pth: input")
    (mistake,) = mistakes_in(workspace, language, wrong.replace("\n", line_end))
    assert mistake["message"].startswith("`read_text_file` has no argument `pth`. Did you mean `path`?")
    assert mistake["line"] == (5 if language == "python" else 4)


def test_nothing_of_the_skill_is_run(workspace: Path) -> None:
    assert mistakes_in(workspace, "python", "open('was-run', 'w')\n" + SKILLS["python"]) == []
    assert not (workspace / "was-run").exists()

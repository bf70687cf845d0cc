"""How the built-in skills are read: each with the proof of exactly these bytes, or not at all."""

import json
from dataclasses import replace

import pytest

from orchestrator.adapters.skill_library import read_content, read_library
from orchestrator.domain.execution import Language
from orchestrator.domain.skills import BUILT_IN, SkillState
from orchestrator.service.skill_proofs import Proven, Run
from tests.support.skills import content, tool

PROVEN = Proven((Run({"text": "abc"}, (), {"count": 3}),), (tool("postgres/query"),))


class Library:
    def __init__(self, directory):
        self.directory = directory
        (directory / "proofs").mkdir()

    def add(self, skill):
        document = skill.as_document()
        code, _, _ = (document.pop(name) for name in ("code", "name", "language"))
        (self.directory / skill.name).with_suffix(".json").write_text(json.dumps(document))
        (self.directory / skill.name).with_suffix(skill.language.suffix).write_bytes(code.encode())

    def prove(self, skill):
        proof = {"version": skill.version, "provenAt": 1234.5, "digests": {"postgres/query": "a" * 64}, "calls": 2}
        proof["recording"] = PROVEN.as_document()
        (self.directory / "proofs" / f"{skill.name}.json").write_text(json.dumps(proof))

    def read(self):
        return read_library(self.directory)


@pytest.fixture
def library(tmp_path):
    return Library(tmp_path)


@pytest.mark.parametrize("language", list(Language))
def test_a_skill_is_read_with_its_proof_and_its_recording(library, language):
    written = content(language=language)
    library.add(written)
    library.prove(written)
    found = library.read()
    (skill,) = found.skills
    assert skill.content == written
    assert (skill.author, skill.state, skill.approved_by) == (BUILT_IN, SkillState.APPROVED, BUILT_IN)
    assert (skill.proof.proven_at, skill.proof.calls, skill.created_at) == (1234.5, 2, 1234.5)
    assert Proven.unpacked(found.recordings["count_orders"]) == PROVEN


@pytest.mark.parametrize("code", ["a\r\nb\r\n", "ä", "a"])
def test_code_is_read_byte_by_byte(library, code):
    library.add(written := content(code=code))
    library.prove(written)
    assert library.read().skills[0].content.code == code


def test_a_skill_that_was_changed_since_its_proof_is_not_there(library):
    proven = content()
    library.prove(proven)
    library.add(replace(proven, code=f"{proven.code}\n"))
    assert (library.read().skills, library.read().recordings) == ((), {})


def test_a_skill_without_a_proof_is_not_there(library):
    library.add(content())
    assert library.read().skills == ()


def test_skills_come_by_name_and_proofs_are_no_skills(library):
    for name in ("second", "first"):
        library.add(content(name))
        library.prove(content(name))
    assert [skill.name for skill in library.read().skills] == ["first", "second"]


def test_an_empty_folder_has_no_skills(tmp_path):
    assert read_library(tmp_path).skills == ()


def test_one_skill_is_read_by_its_file(library):
    library.add(content("first"))
    assert read_content(library.directory / "first.json") == content("first")

"""What the programs of skills import, written for one language and by several threads at once."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from orchestrator.domain.execution import Language
from orchestrator.domain.tools import SkillTraits, Tool
from orchestrator.wrappers.skill_sources import WrittenSources
from tests.support.skills import RETURNS_COUNT, TAKES_TEXT, tool

QUERY = tool("postgres/query")


def skill(name="count_orders", **traits):
    told = SkillTraits("1" * 64, "python", (("postgres", "query"),), **traits)
    return Tool("skills", name, input_schema=TAKES_TEXT, output_schema=RETURNS_COUNT, skill=told)


@pytest.mark.parametrize("language", list(Language))
def test_only_files_of_the_language_are_written(language):
    sources = WrittenSources()
    for files in (sources.skill_files([skill()], language), sources.tool_files([QUERY], language)):
        assert files
        assert {path.rpartition(".")[2] for path in files} == {language.suffix.strip(".")}


@pytest.mark.parametrize("language", list(Language))
def test_a_skill_has_a_wrapper_and_is_in_the_list_of_all(language):
    files = WrittenSources().skill_files([skill("first"), skill("second")], language)
    assert {f"skills/{name}{language.suffix}" for name in ("first", "second")} <= files.keys()
    (index,) = [text for path, text in files.items() if path.startswith(("skills/__init__", "skills/index"))]
    assert "first" in index
    assert "second" in index


def test_nothing_is_written_for_nothing():
    assert not any("count_orders" in path for path in WrittenSources().skill_files([], Language.PYTHON))


def test_threads_get_what_they_asked_for_and_not_what_another_did():
    sources, every = WrittenSources(), [skill(f"skill_{number}") for number in range(40)]

    def files_of(number):
        return sources.skill_files([every[number]], Language.PYTHON)

    with ThreadPoolExecutor(8) as threads:
        for number, files in enumerate(threads.map(files_of, range(len(every)))):
            assert [path for path in files if "skill_" in path] == [f"skills/skill_{number}.py"]

from __future__ import annotations

import pytest

from orchestrator.domain.execution import Language
from orchestrator.domain.tools import Tool
from orchestrator.wrappers import BACKENDS, Contract, generate


def test_every_language_has_a_backend() -> None:
    assert list(BACKENDS) == list(Language)


@pytest.mark.parametrize("language", Language)
def test_every_language_gets_its_own_files_for_a_tool_its_server_and_discovery(language: Language) -> None:
    files = generate([Tool("s", "t")]).files_in(language)
    index = f"servers/s/{BACKENDS[language].index_file}"
    assert set(files) == {f"servers/s/t{language.suffix}", index, f"servers/discovery{language.suffix}"}


def test_no_two_languages_share_a_suffix() -> None:
    suffixes = [suffix for language in Language for suffix in language.suffixes]
    assert len(suffixes) == len(set(suffixes))


def test_import_line_names_the_identifiers() -> None:
    contract = Contract.of(Tool("web-search", "find.pages"), None)
    lines = {language.value: backend.import_line(contract) for language, backend in BACKENDS.items()}
    assert lines == {
        "typescript": "import { find_pages } from '/workspace/servers/web_search/find_pages.js';",
        "python": "from servers.web_search import find_pages",
    }

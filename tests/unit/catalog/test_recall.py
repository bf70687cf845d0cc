"""Search on real tools and annotated tasks; what bench/search.py measures, as a floor."""

from __future__ import annotations

import pytest

from bench.search import DATA, average, data_is_there, read_tasks, read_tools, recall_of
from orchestrator.catalog.search import SearchIndex

pytestmark = pytest.mark.skipif(not data_is_there(), reason=f"the real tools and tasks are not in {DATA}")


@pytest.mark.parametrize("with_descriptions", [True, False])
def test_annotated_tools_are_found_step_by_step_and_by_the_whole_task(with_descriptions):
    tools, descriptions = read_tools()
    index = SearchIndex(tools, server_descriptions=descriptions if with_descriptions else {})
    recall = average([recall_of(index, task) for task in read_tasks()])
    assert recall.steps_at_5 >= 0.80
    assert recall.whole_at_10 >= 0.55


def test_every_real_tool_is_found_by_its_own_name():
    tools, descriptions = read_tools()
    index = SearchIndex(tools, server_descriptions=descriptions)
    missed = [
        tool.path
        for tool in tools
        if tool not in [hit.tool for hit in index.search([tool.name], server=tool.server, limit=5)]
    ]
    assert missed == []

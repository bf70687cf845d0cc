"""Schemas that are small where they are listed and would be large where they are written."""

import time

import pytest

from orchestrator.domain.tools import Tool
from orchestrator.upstreams.listing import Listing
from orchestrator.wrappers import BACKENDS, Contract, generate
from tests.support.hostile_listings import GREEDY_SCHEMAS

LARGEST_SOURCE = 256 * 1024


@pytest.mark.parametrize("greedy", GREEDY_SCHEMAS, ids=lambda greedy: greedy.__name__)
def test_no_schema_grows_without_end_whatever_refers_to_what_in_it(greedy):
    listing = Listing("hostile")
    listing.read(greedy())
    first = listing.tools[0]
    honest = Tool("honest", "add", "Adds.", {"type": "object", "properties": {"a": {"type": "number"}}})
    began = time.monotonic()
    files = generate([first, honest]).files
    contract = Contract.of(first, None)
    told = [write(contract) for each in BACKENDS.values() for write in (each.signature, each.example_call)]
    assert time.monotonic() - began < 10  # a tenth of a second; it was minutes
    assert max(map(len, files.values())) <= LARGEST_SOURCE
    assert max(map(len, told)) <= LARGEST_SOURCE
    alone = generate([honest]).files
    assert {path: files[path] for path in alone if "honest" in path} == {
        path: text for path, text in alone.items() if "honest" in path
    }


def test_a_large_schema_that_refers_to_nothing_is_written_whole():
    """The control: size alone is no reason to leave anything out."""
    properties = {f"argument_{number}": {"type": "string", "description": "It matters."} for number in range(500)}
    schema = {"type": "object", "properties": properties, "required": [*properties]}
    files = generate([Tool("s", "large", "Large.", schema)]).files
    for path in ("servers/s/large.ts", "servers/s/large.py"):
        assert all(name in files[path] for name in properties)
        assert "too large" not in files[path]

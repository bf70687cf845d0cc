"""The servers that we wrote, as far as they need neither their packages nor a backend; tests/servers has the rest."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import AsyncIterator
from datetime import date
from decimal import Decimal
from types import ModuleType
from typing import Any

import pytest

from tests.unit.setup.machine import PROJECT


def module(path: str) -> Any:
    name = path.replace("/", "_").replace("-", "_").removesuffix(".py")
    found = importlib.util.spec_from_file_location(name, PROJECT / "deploy" / "stack" / "modules" / path)
    assert found is not None
    assert found.loader is not None
    made = sys.modules[name] = importlib.util.module_from_spec(found)
    found.loader.exec_module(made)
    return made


class Table:
    """Rows that are made as they are read, and that remember how many were."""

    def __init__(self, rows: int, text: str = "") -> None:
        self.rows, self.text, self.read = rows, text, 0

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        for number in range(self.rows):
            self.read += 1
            yield {"n": number, "text": self.text}


@pytest.fixture(scope="module")
def answer() -> Any:
    return module("mcp-timescaledb/time_series/answer.py")


async def test_of_a_large_result_the_first_rows_are_kept_and_all_are_counted(answer: Any) -> None:
    table = Table(25_000)
    found = await answer.collected(table)
    assert (len(found.rows), found.affected, found.is_cut) == (answer.MAX_ROWS, 25_000, True)
    assert table.read == 25_000, "a statement that changes something is not broken off"


async def test_rows_that_are_large_are_cut_by_their_bytes(answer: Any) -> None:
    found = await answer.collected(Table(100, "x" * 1000), max_bytes=10_500)
    assert (len(found.rows), found.affected, found.is_cut) == (10, 100, True)
    assert [row["n"] for row in found.rows] == list(range(10))


async def test_a_result_that_fits_is_whole(answer: Any) -> None:
    found = await answer.collected(Table(answer.MAX_ROWS))
    assert (len(found.rows), found.is_cut) == (answer.MAX_ROWS, False)


def test_values_are_what_json_can_hold(answer: Any) -> None:
    row = {"a": Decimal("1.5"), "b": float("inf"), "c": date(2026, 5, 1), "d": b"\x01", "e": [None, (True,)]}
    assert answer.as_json(row) == {"a": 1.5, "b": "inf", "c": "2026-05-01", "d": "01", "e": [None, [True]]}


class S3Error(Exception):
    """As minio's: what the store said of which bucket and object."""

    def __init__(self, code: str, message: str) -> None:
        self.code, self.message, self.bucket_name, self.object_name = code, message, "b", "k{0}"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module with stand-ins for its packages, which are in its image only."""
    names = ("urllib3", "urllib3.exceptions", "minio", "minio.commonconfig", "minio.deleteobjects", "minio.error")
    packages = {name: ModuleType(name) for name in names}
    for name, package in packages.items():
        monkeypatch.setitem(sys.modules, name, package)
    told = {"S3Error": S3Error, "MinioException": S3Error, "HTTPError": S3Error, "Minio": object}
    for package in packages.values():
        package.__dict__.update(told, CopySource=object, DeleteObject=object, exceptions=packages["urllib3.exceptions"])
    return module("mcp-minio/object_store/store.py")


@pytest.mark.parametrize(
    ("code", "message", "said"),
    [
        ("NoSuchKey", "", "There is no object k{0} in the bucket b; list_objects tells which there are."),
        ("Odd", "No such thing: {0} {bucket.__class__} {", "No such thing: {0} {bucket.__class__} { (Odd)"),
    ],
)
async def test_what_the_store_says_is_passed_on_as_it_is(store: Any, code: str, message: str, said: str) -> None:
    @store.on_a_thread
    def fails() -> None:
        raise S3Error(code, message)

    with pytest.raises(store.Refused) as refused:
        await fails()
    assert str(refused.value) == said

"""A file of a stranger on its way to a browser: under which name, as what, and which part of it."""

from __future__ import annotations

import re
from urllib.parse import unquote

import pytest

from orchestrator.domain.errors import RangeNotSatisfiable
from orchestrator.faces.http.downloads import HARMLESS, byte_range, disposition


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("report.csv", 'attachment; filename="report.csv"'),
        ("2026/q3/report.csv", 'attachment; filename="report.csv"'),
        ("Ärger 1.csv", "attachment; filename=\"_rger_1.csv\"; filename*=UTF-8''%C3%84rger%201.csv"),
        ('a".html', "attachment; filename=\"a_.html\"; filename*=UTF-8''a%22.html"),
        ("a;b=c.txt", "attachment; filename=\"a_b_c.txt\"; filename*=UTF-8''a%3Bb%3Dc.txt"),
        ("100%.txt", "attachment; filename=\"100_.txt\"; filename*=UTF-8''100%25.txt"),
        ("a\r\nX: y", "attachment; filename=\"a__X__y\"; filename*=UTF-8''a%0D%0AX%3A%20y"),
        ("\\..\\evil.exe", "attachment; filename=\"_.._evil.exe\"; filename*=UTF-8''%5C..%5Cevil.exe"),
        ("報告.csv", "attachment; filename=\"__.csv\"; filename*=UTF-8''%E5%A0%B1%E5%91%8A.csv"),
    ],
)  # fmt: skip
def test_a_name_is_written_so_that_nothing_of_it_is_taken_for_more_than_a_name(name, header):
    assert disposition(name) == header
    assert re.fullmatch(r"[\x20-\x7e]+", header)
    if "*=" in header:
        assert unquote(header.rpartition("''")[2]) == name.rpartition("/")[2]


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("bytes=0-0", (0, 1)),
        ("bytes=2-5", (2, 4)),
        ("bytes=2-", (2, 8)),
        ("bytes=-3", (7, 3)),
        ("bytes=-300", (0, 10)),
        ("bytes=5-999999999999999999", (5, 5)),
        (" bytes=9-9 ", (9, 1)),
        ("Bytes=0-0", (0, 1)),
    ],
)
def test_a_range_is_found_within_the_file(header, found):
    assert byte_range(header, 10) == found


@pytest.mark.parametrize(
    "header",
    [
        *(None, "", "bytes=", "bytes=-", "bytes=5-4", "bytes=0-1,3-4", "bytes=--1", "bytes=-1-2", "lines=1-2"),
        *("bytes=1e3-", "bytes=٣-", "bytes=0x1-", "bytes = 0-1", "bytes=0-" + "9" * 5000),
    ],
)
def test_a_range_that_is_invalid_or_several_is_ignored(header):
    assert byte_range(header, 10) is None


@pytest.mark.parametrize("header", ["bytes=10-", "bytes=10-12", "bytes=-0", f"bytes={'9' * 1000}-"])
def test_a_range_that_begins_after_the_end_is_refused(header):
    with pytest.raises(RangeNotSatisfiable):
        byte_range(header, 10)


def test_an_empty_file_has_no_range():
    with pytest.raises(RangeNotSatisfiable):
        byte_range("bytes=0-", 0)
    with pytest.raises(RangeNotSatisfiable):
        byte_range("bytes=-5", 0)


def test_nothing_that_a_browser_acts_on_is_among_the_harmless():
    assert not [kind for kind in HARMLESS if re.search(r"html|xml|svg|script|pdf|css|flash|mhtml|wasm", kind)]

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace

import pytest

from orchestrator.domain.errors import InvalidArguments, LimitExceeded
from orchestrator.domain.execution import GatewayLimits
from orchestrator.service.pictures import Picture, Pictures, images_in

LIMITS = GatewayLimits(1, 1, 1, 1, 1.0, max_images=3, max_images_bytes=100)
PNG = b"\x89PNG\r\n\x1a\n"


def order(data: bytes) -> dict[str, str]:
    return {"data": b64encode(data).decode()}


def emit(pictures, given):
    return pictures.emit(Picture.read(given.get("data")))


def note(pictures, result):
    pictures.note(pictures.readable(images_in(result)))


@pytest.mark.parametrize(
    ("data", "kind"),
    [(PNG, "png"), (b"\xff\xd8\xff\xe0", "jpeg"), (b"GIF89a", "gif"), (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "webp")],
)
def test_the_kind_of_a_picture_is_found_out_from_its_bytes(data, kind):
    pictures = Pictures(LIMITS)
    assert emit(pictures, order(data)) == 1
    assert [image.mime_type for image in pictures.all()] == [f"image/{kind}"]


@pytest.mark.parametrize("wrong", [{}, {"data": 5}, {"data": "no base64!"}, {"data": ""}, order(b"<svg/>")])
def test_what_is_no_picture_is_refused(wrong):
    with pytest.raises(InvalidArguments):
        emit(Pictures(LIMITS), wrong)


def test_too_many_pictures_are_refused():
    pictures = Pictures(LIMITS)
    for number in range(3):
        emit(pictures, order(PNG + bytes([number])))
    with pytest.raises(LimitExceeded, match="3 pictures"):
        emit(pictures, order(PNG + b"four"))


def test_too_many_bytes_are_refused():
    with pytest.raises(LimitExceeded):
        emit(Pictures(LIMITS), order(PNG + b"x" * 100))


def test_the_same_picture_counts_once():
    pictures = Pictures(LIMITS)
    assert [emit(pictures, order(PNG)) for _ in range(5)] == [1] * 5


def test_pictures_in_a_tools_result_are_kept_while_there_is_room():
    pictures = Pictures(replace(LIMITS, max_images=1))
    contents = [{"type": "text", "text": "hi"}, {"type": "image", **order(PNG)}, {"type": "image", **order(PNG + b"2")}]
    note(pictures, {"content": contents})
    assert [image.data for image in pictures.all()] == [PNG]


@pytest.mark.parametrize("result", [{}, {"content": None}, {"content": ["x"]}, {"content": [{"type": "image"}]}])
def test_an_odd_result_of_a_tool_is_no_trouble(result):
    pictures = Pictures(LIMITS)
    note(pictures, result)
    assert pictures.all() == ()

"""Each body has exactly the fields that its model promises: bodies are built without validation, because of speed."""

from dataclasses import replace

import pytest

from orchestrator.domain.execution import Ending, ExecutionResult, Image, Outcome, Page, State
from orchestrator.faces.bodies import ExecutionDetail, ExecutionReply, ExecutionSummary
from tests.support.samples import record, refused, tool_call

ENDED = replace(record().ended(Ending(Outcome.FAILED, exit_code=3), 2.0), tool_calls=(tool_call(),))
PAGE = Page(b"out", 3)


@pytest.mark.parametrize("told", [ENDED, record(state=State.RUNNING), refused()], ids=["ended", "running", "refused"])
def test_every_field_of_the_model_is_in_the_body_and_fits_it(told):
    for body in (
        ExecutionSummary.of(told),
        ExecutionReply.of_result(ExecutionResult(told, b"out", b"err", (Image("image/png", b"pixels"),)), len),
        ExecutionDetail.of_pages(told, PAGE, PAGE, 0),
    ):
        kind = type(body)
        sent = body.model_dump(mode="json", by_alias=True)
        assert set(sent) == {field.alias for field in kind.model_fields.values()}
        assert kind.model_validate(sent).model_dump(mode="json", by_alias=True) == sent


def test_a_reply_has_its_pictures_and_a_record_says_that_none_are_kept():
    pictures = (Image("image/png", b"first"), Image("image/jpeg", b"second"))
    reply = ExecutionReply.of_result(ExecutionResult(ENDED, images=pictures), len).model_dump(by_alias=True)
    assert reply["images"] == [
        {"mimeType": "image/png", "bytes": 5, "data": "Zmlyc3Q="},
        {"mimeType": "image/jpeg", "bytes": 6, "data": "c2Vjb25k"},
    ]
    assert ExecutionReply.of_result(ExecutionResult(ENDED), len).images == []
    assert ExecutionDetail.of_pages(ENDED, PAGE, PAGE, 0).images is None

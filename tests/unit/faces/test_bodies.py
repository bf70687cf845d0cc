"""Each body has exactly the fields that its model promises: bodies are built without validation, because of speed."""

from dataclasses import replace

import pytest

from orchestrator.domain.execution import Ending, ExecutionResult, Outcome, Page, State
from orchestrator.faces.bodies import ExecutionDetail, ExecutionReply, ExecutionSummary
from tests.support.samples import record, refused, tool_call

ENDED = replace(record().ended(Ending(Outcome.FAILED, exit_code=3), 2.0), tool_calls=(tool_call(),))
PAGE = Page(b"out", 3)


@pytest.mark.parametrize("told", [ENDED, record(state=State.RUNNING), refused()], ids=["ended", "running", "refused"])
def test_every_field_of_the_model_is_in_the_body_and_fits_it(told):
    for body in (
        ExecutionSummary.of(told),
        ExecutionReply.of_result(ExecutionResult(told, b"out", b"err"), len),
        ExecutionDetail.of_pages(told, PAGE, PAGE, 0),
    ):
        kind = type(body)
        sent = body.model_dump(mode="json", by_alias=True)
        assert set(sent) == {field.alias for field in kind.model_fields.values()}
        assert kind.model_validate(sent).model_dump(mode="json", by_alias=True) == sent

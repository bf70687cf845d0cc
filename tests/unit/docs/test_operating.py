"""What docs/operating.md and docs/troubleshooting.md say must be so."""

from __future__ import annotations

import re

from orchestrator.domain.errors import OrchestratorError
from orchestrator.faces.http.problems import STATUS_OF_CODE
from tests.unit.docs.pages import PROJECT, page, rows, section

NO_STATUS = "–"  # noqa: RUF001  (as the page writes it)


def error_codes() -> set[str]:
    return {OrchestratorError.code} | {kind.code for kind in OrchestratorError.__subclasses__()}


def test_every_error_code_has_a_troubleshooting_row_with_its_status():
    codes = section(page("docs/troubleshooting.md"), "Error codes")
    documented = {code: status for code, status, _ in rows(codes)}
    assert documented == {code: str(STATUS_OF_CODE.get(code, NO_STATUS)) for code in error_codes()}


def test_every_metric_that_is_named_exists():
    metrics = section(page("docs/operating.md"), "Metrics")
    named = {name.removesuffix("_total") for name in re.findall(r"`(code_executor_\w+)`", metrics)}
    source = "\n".join(file.read_text() for file in PROJECT.glob("orchestrator/**/*.py"))
    assert named == set(re.findall(r'"(code_executor_\w+)"', source))

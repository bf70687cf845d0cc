"""What docs/operating.md and docs/troubleshooting.md say must be so."""

from __future__ import annotations

import re

from orchestrator.domain.errors import kinds
from orchestrator.faces.status import status_of
from tests.unit.docs.pages import PROJECT, page, rows, section


def test_every_error_code_has_a_troubleshooting_row_with_its_status():
    codes = section(page("docs/troubleshooting.md"), "Error codes")
    documented = {code: status for code, status, _ in rows(codes)}
    assert documented == {kind.code: str(status_of(kind).value) for kind in kinds()}


def test_every_metric_that_is_named_exists():
    metrics = section(page("docs/operating.md"), "Metrics")
    named = {name.removesuffix("_total") for name in re.findall(r"`(code_executor_\w+)`", metrics)}
    source = "\n".join(file.read_text() for file in PROJECT.glob("orchestrator/**/*.py"))
    assert named == set(re.findall(r'"(code_executor_\w+)"', source))

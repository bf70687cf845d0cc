"""The dashboard and the alert rules speak of what the daemon exposes, and of nothing else."""

from __future__ import annotations

import json
import re
from typing import Any, cast

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from deploy.monitoring import dashboard
from orchestrator import daemon
from orchestrator.adapters.metrics import Metrics
from orchestrator.domain.execution import Language, Outcome
from orchestrator.domain.ledger import CallOutcome
from orchestrator.domain.upstream import UpstreamState
from tests.contract.test_journal import result_of
from tests.support.samples import tool_call
from tests.unit.adapters.test_metrics import ListedTools
from tests.unit.docs.pages import PROJECT, page

MONITORING = PROJECT / "deploy" / "monitoring"
RULES: list[dict[str, Any]] = yaml.safe_load((MONITORING / "prometheus" / "rules.yml").read_text())["groups"][0][
    "rules"
]
CASES: list[dict[str, Any]] = yaml.safe_load((MONITORING / "rules.test.yml").read_text())["tests"]
OF_PROMETHEUS = {"up", "ALERTS"}
WORDS = {"and", "or"}
VALUES = {
    "outcome": {*Outcome, *CallOutcome},
    "language": set(Language),
    "phase": {"queue", "start", "run"},
    "state": set(UpstreamState),
    "stream": {"stdout", "stderr"},
    "job": {"code-executor"},
    "alertstate": {"firing"},
}


def gauges_of_the_daemon() -> dict[str, Any]:
    """What they read is asked only when they are."""
    absent = cast(Any, None)
    return (
        daemon._gauges(absent, absent, absent)
        | daemon._intake_gauges(absent, absent)
        | daemon._session_gauges(absent)
        | daemon._state_gauges(absent, absent)
    )


@pytest.fixture(scope="module")
def exposed() -> set[str]:
    gauges = {name: (told, lambda: 0.0) for name, (told, _) in gauges_of_the_daemon().items()}
    metrics = Metrics(gauges, ListedTools(postgres=["query"]))
    metrics.observe(result_of("e1", calls=(tool_call(),)))
    families = text_string_to_metric_families(metrics.render().decode())
    return {sample.name for family in families for sample in family.samples}


def panels() -> list[dict[str, Any]]:
    return [panel for panel in dashboard.dashboard()["panels"] if panel["type"] != "row"]


def expressions() -> list[str]:
    shown = [target["expr"] for panel in panels() for target in panel["targets"]]
    return [*shown, *(rule["expr"] for rule in RULES)]


def metrics_in(expression: str) -> set[str]:
    bare = re.sub(r'"[^"]*"|\{[^}]*\}|\[[^]]*\]|\bby \([^)]*\)', " ", expression)
    return set(re.findall(r"[a-zA-Z_:]\w*(?!\w*\s*\()", bare)) - WORDS


def test_the_names_of_metrics_are_found_in_an_expression() -> None:
    expression = 'sum by (le) (rate(some_bucket{phase="x"}[5m])) / other > 0.5 and absent(up == 1) or vector(1)'
    assert metrics_in(expression) == {"some_bucket", "other", "up"}


@pytest.mark.parametrize("expression", expressions())
def test_every_metric_that_a_panel_or_a_rule_uses_is_exposed(expression: str, exposed: set[str]) -> None:
    assert metrics_in(expression) - OF_PROMETHEUS <= exposed


@pytest.mark.parametrize("expression", expressions())
def test_every_value_that_a_panel_or_a_rule_looks_for_can_occur(expression: str) -> None:
    for label, _, values in re.findall(r'(\w+)(=|!=|=~)"([^"]*)"', expression):
        assert values == "$server" or set(values.split("|")) <= VALUES[label], (label, values)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_every_metric_of_a_case_is_exposed(case: dict[str, Any], exposed: set[str]) -> None:
    names = {re.match(r"\w+", each["series"])[0] for each in case["input_series"]}  # type: ignore[index]
    assert names - OF_PROMETHEUS <= exposed


def test_every_metric_of_the_daemon_is_on_the_dashboard_or_in_a_rule() -> None:
    used = set().union(*map(metrics_in, expressions()))
    assert set(gauges_of_the_daemon()) - used == set()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_every_alert_says_what_it_means_and_what_to_do_and_has_a_case_in_which_it_fires(rule: dict[str, Any]) -> None:
    assert rule["alert"].startswith("CodeExecutor")
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert rule["annotations"]["summary"].endswith(".")
    assert len(rule["annotations"]["description"]) > 80
    firing = json.dumps(CASES)
    assert (
        f'alertname=\\"{rule["alert"]}\\",alertstate=\\"firing\\"' in firing
        or f'"alertname": "{rule["alert"]}", "eval_time"' in firing
    )


def test_the_settings_that_an_alert_names_exist() -> None:
    named = set(re.findall(r"CODE_EXECUTOR_\w+", json.dumps(RULES)))
    assert named
    assert [name for name in named if f"`{name}`" not in page("docs/configuration.md")] == []


def test_every_alert_is_in_the_table_for_people() -> None:
    documented = re.findall(r"^\| `(CodeExecutor\w+)` ", page("docs/operating.md"), re.MULTILINE)
    assert documented == [rule["alert"] for rule in RULES]


def test_the_dashboard_is_the_one_that_its_script_makes() -> None:
    assert dashboard.FILE.read_text() == dashboard.text(), (
        "run: .venv/bin/python -m deploy.monitoring.dashboard --write"
    )


def test_panels_have_a_place_of_their_own_and_say_what_they_show() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {(place["x"] + column, place["y"] + line) for column in range(place["w"]) for line in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= dashboard.COLUMNS
        assert panel["description"].endswith(".")
        taken |= cells
    assert len({panel["id"] for panel in dashboard.dashboard()["panels"]}) == len(dashboard.dashboard()["panels"])

from prometheus_client.parser import text_string_to_metric_families

from orchestrator.adapters.metrics import Metrics
from orchestrator.domain.ledger import CallOutcome
from tests.contract.test_journal import result_of
from tests.support.samples import tool_call


def calls_by_outcome(metrics: Metrics) -> dict[str, float]:
    families = text_string_to_metric_families(metrics.render().decode())
    samples = [sample for family in families for sample in family.samples]
    return {each.labels["outcome"]: each.value for each in samples if each.name == "code_executor_tool_calls_total"}


def test_tool_calls_are_counted_by_outcome_and_denied_ones_among_them():
    metrics = Metrics({})
    calls = (tool_call(), tool_call(CallOutcome.DENIED), tool_call(CallOutcome.DENIED))
    metrics.observe(result_of("e1", calls=calls))
    counted = calls_by_outcome(metrics)
    assert (counted["done"], counted["denied"]) == (1, 2)


def test_every_outcome_of_a_call_is_there_before_the_first_call():
    assert calls_by_outcome(Metrics({})) == dict.fromkeys(CallOutcome, 0)

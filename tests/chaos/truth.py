"""Whether the journal tells, after a kill, what became of the executions that callers heard of."""

from __future__ import annotations

from datetime import datetime

from tests.chaos.callers import Sent
from tests.support.api import Api


async def untruthful(api: Api, sent: list[Sent], killed_at: float) -> list[str]:
    wrong = [f"{each.execution_id}: {told}" for each in sent if (told := await _lie_about(api, each, killed_at))]
    _, listing = await api.get("/executions?limit=500")
    open_ones = [each for each in listing["executions"] if each["state"] in ("queued", "running")]
    return wrong + [f"{each['executionId']}: still {each['state']}" for each in open_ones]


async def _lie_about(api: Api, sent: Sent, killed_at: float) -> str | None:
    """What the journal says wrongly of an execution, if anything."""
    status, record = await api.get(f"/executions/{sent.execution_id}")
    if status != 200:
        return f"the journal answers {status}"
    # The programs make one call after another, so what was told of them is how the ledger begins.
    if record["toolCalls"][: len(sent.calls)] != sent.calls:
        return f"has the calls {record['toolCalls']} where {sent.calls} were told"
    if sent.result is not None:
        told, recorded = (sent.result["outcome"], sent.result["toolCalls"]), (record["outcome"], record["toolCalls"])
        same = record["state"] == "finished" and told == recorded
        return None if same else f"was {told}, is told as {record['state']} {recorded}"
    if record["state"] == "finished":  # its end was written, but not yet sent
        early = datetime.fromisoformat(record["finishedAt"]).timestamp() <= killed_at
        return None if early else "is told as finished after the kill"
    return None if record["state"] == "interrupted" else f"is told as {record['state']}"

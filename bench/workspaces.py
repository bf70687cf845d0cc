"""What a workspace costs: the same hello without one, with an empty one, and with one of 10 MB, in turns."""

from __future__ import annotations

import random

from bench.client import Client, Reply
from bench.engine import Engine
from bench.installation import Daemon, installation
from bench.plan import Plan
from bench.programs import HELLO_PYTHON
from bench.progress import say
from bench.results import WorkspaceCost
from bench.stats import summary

WARM = 1
WITHOUT, EMPTY, FULL = "without a workspace", "an empty workspace", "a workspace of 10 MB"
NAMES = {WITHOUT: None, EMPTY: "empty", FULL: "full"}
FILL = """
import os
for number in range(10):
    with open(f"/workspace/files/{number}.bin", "wb") as file:
        file.write(os.urandom(1_000_000))
print("filled")
"""


def measure_workspaces(_: Engine, plan: Plan) -> list[WorkspaceCost]:
    with installation(pool=WARM) as daemon:
        client = daemon.client()
        client.execute(FILL, HELLO_PYTHON.language, workspace=NAMES[FULL])
        daemon.settle()
        seconds: dict[str, list[float]] = {name: [] for name in NAMES}
        for number in range(plan.warm_up_rounds + plan.rounds):
            for name in random.sample(list(seconds), len(seconds)):
                reply = _run(daemon, client, NAMES[name])
                if number >= plan.warm_up_rounds:
                    seconds[name].append(reply.seconds)
        client.close()
    costs = []
    for name in (EMPTY, FULL):
        added = [with_ - without for with_, without in zip(seconds[name], seconds[WITHOUT], strict=True)]
        costs.append(
            WorkspaceCost(
                name=name, with_it=summary(seconds[name]), without=summary(seconds[WITHOUT]), added=summary(added)
            )
        )
        say(f"  {name}: {costs[-1].added.p50_ms:.1f} ms more than {costs[-1].without.p50_ms:.1f} ms")
    return costs


def _run(daemon: Daemon, client: Client, workspace: str | None) -> Reply:
    reply = client.execute(HELLO_PYTHON.code, HELLO_PYTHON.language, workspace=workspace)
    daemon.settle()
    if not HELLO_PYTHON.accepts(reply.output) or not reply.warm:
        raise RuntimeError(f"hello printed {reply.output[:80]!r}, warm: {reply.warm}")
    return reply

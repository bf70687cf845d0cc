"""What the check of programs costs: the same program with one tool call, checked and not, in turns."""

from __future__ import annotations

import random

from bench.client import Client, Reply
from bench.engine import Engine
from bench.installation import Daemon, installation
from bench.plan import Plan
from bench.programs import ONE_TOOL_CALL, ONE_TOOL_CALL_PYTHON, Program
from bench.progress import say
from bench.results import CheckCost
from bench.stats import ratio, summary

WARM = 1
CHECKED, UNCHECKED = "strict", "off"


def measure_check(_: Engine, plan: Plan) -> list[CheckCost]:
    return cost_of_the_check(plan)


def cost_of_the_check(plan: Plan) -> list[CheckCost]:
    with installation(pool=WARM, tools=True) as daemon:
        client = daemon.client()
        costs = [_cost(daemon, client, program, plan) for program in (ONE_TOOL_CALL, ONE_TOOL_CALL_PYTHON)]
        client.close()
    return costs


def _cost(daemon: Daemon, client: Client, program: Program, plan: Plan) -> CheckCost:
    seconds: dict[str, list[float]] = {CHECKED: [], UNCHECKED: []}
    for number in range(plan.warm_up_rounds + plan.rounds):
        for check in random.sample(list(seconds), len(seconds)):
            reply = _run(client, program, check)
            daemon.settle()
            if number >= plan.warm_up_rounds:
                seconds[check].append(reply.seconds)
    checked, unchecked = (summary(seconds[check]) for check in (CHECKED, UNCHECKED))
    added = [with_ - without for with_, without in zip(seconds[CHECKED], seconds[UNCHECKED], strict=True)]
    cost = CheckCost(
        language=program.language,
        checked=checked,
        unchecked=unchecked,
        ratio=ratio(seconds[CHECKED], seconds[UNCHECKED]),
        added=summary(added),
    )
    say(f"  {program.title}, {program.language}: {checked.p50_ms:.0f} ms checked, {unchecked.p50_ms:.0f} ms not")
    return cost


def _run(client: Client, program: Program, check: str) -> Reply:
    reply = client.execute(program.code, program.language, check)
    if not program.accepts(reply.output) or not reply.warm:
        raise RuntimeError(f"{program.name} printed {reply.output[:80]!r}, warm: {reply.warm}")
    return reply

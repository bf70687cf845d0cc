"""What the gateway adds to a tool call: the same server asked through it and without it, in turns."""

from __future__ import annotations

import json
import time

from bench.direct_mcp import DirectMcp, direct_mcp
from bench.engine import Engine
from bench.installation import installation
from bench.plan import Plan
from bench.programs import Language, timed_tool_calls
from bench.progress import say
from bench.results import GatewayOverhead
from bench.stats import summary


def measure_gateway(engine: Engine, plan: Plan) -> GatewayOverhead:
    direct: list[float] = []
    through: list[float] = []
    gateway: list[float] = []
    with installation(pool=1, tools=True) as daemon, direct_mcp() as server:
        client = daemon.client()
        for _ in range(plan.gateway_rounds):
            direct += _direct_calls(server, plan.gateway_calls)
            reply = client.execute(timed_tool_calls(plan.gateway_calls), Language.TYPESCRIPT)
            through += [milliseconds / 1000 for milliseconds in json.loads(reply.output)]
            gateway += [milliseconds / 1000 for milliseconds in reply.tool_call_ms[1:]]
            daemon.settle()
        client.close()
    return _overhead(direct, through, gateway)


def _direct_calls(server: DirectMcp, calls: int) -> list[float]:
    server.call()
    taken = []
    for _ in range(calls):
        began = time.perf_counter()
        server.call()
        taken.append(time.perf_counter() - began)
    return taken


def _overhead(direct: list[float], through: list[float], gateway: list[float]) -> GatewayOverhead:
    alone, seen, inside = summary(direct), summary(through), summary(gateway)
    say(f"  a tool call: {alone.p50_ms:.2f} ms directly, {seen.p50_ms:.2f} ms in a program")
    return GatewayOverhead(
        direct=alone,
        through=seen,
        gateway=inside,
        overhead_p50_ms=seen.p50_ms - alone.p50_ms,
        overhead_p99_ms=seen.p99_ms - alone.p99_ms,
    )

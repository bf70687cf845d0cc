"""One execution at a time, side by side with the alternatives."""

from __future__ import annotations

from bench.contestants import DOCKER_RUN, OURS_COLD, OURS_WARM, Contestant, Ours
from bench.direct_mcp import direct_mcp
from bench.engine import Engine
from bench.field import Field
from bench.installation import installation
from bench.llm_sandbox import WITHOUT_POOL
from bench.plan import Plan
from bench.programs import (
    FLOOD_10_MB,
    HELLO_PYTHON,
    HELLO_TYPESCRIPT,
    IMPORT_PANDAS,
    IMPORT_ZOD,
    ONE_TOOL_CALL,
    OUTPUT_100_KB,
    TWO_TOOL_CALLS,
)
from bench.results import Latency
from bench.rounds import measure

WARM = 2


def measure_latency(engine: Engine, plan: Plan) -> Latency:
    with (
        installation(pool=WARM) as warm,
        installation(pool=0) as cold,
        Field(engine, warm, cold) as field,
    ):
        workloads = [
            measure(program, field.contestants, plan, field.unavailable) for program in (HELLO_TYPESCRIPT, HELLO_PYTHON)
        ]
        # Output is carried the same way whether the container is new or not, so the slowest start is left out.
        others = field.without(WITHOUT_POOL, OURS_COLD)
        workloads += [measure(program, others, plan, field.unavailable) for program in (OUTPUT_100_KB, FLOOD_10_MB)]
        with_packages = [one for one in field.contestants if one.name in (OURS_WARM, DOCKER_RUN)]
        workloads += [
            measure(program, with_packages, plan, field.unavailable) for program in (IMPORT_PANDAS, IMPORT_ZOD)
        ]
    return Latency(workloads=workloads, unavailable=field.unavailable)


def measure_tools(engine: Engine, plan: Plan) -> Latency:
    unable: dict[str, str] = {}
    with (
        installation(pool=WARM, tools=True) as warm,
        installation(pool=0, tools=True) as cold,
        direct_mcp() as server,
    ):
        contestants: list[Contestant] = [
            Ours(OURS_WARM, warm, streaming=False),
            Ours(OURS_COLD, cold, streaming=True),
            server,
        ]
        workloads = [measure(program, contestants, plan, unable) for program in (ONE_TOOL_CALL, TWO_TOOL_CALLS)]
    return Latency(workloads=workloads, unavailable=unable)

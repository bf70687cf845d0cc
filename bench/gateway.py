"""What the gateway adds to a tool call: the same server asked through it and without it, in turns."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.direct_mcp import DirectMcp, direct_mcp
from bench.engine import LABEL, Engine
from bench.installation import installation
from bench.paths import RUNNER_IMAGE
from bench.plan import Plan
from bench.programs import Language, timed_tool_calls
from bench.progress import say
from bench.results import GatewayOverhead
from bench.stats import summary

MESSAGE_BYTES = 300  # about a small call with its headers
ENGINE_HEADER_BYTES = 8


def measure_gateway(engine: Engine, plan: Plan) -> GatewayOverhead:
    direct: list[float] = []
    through: list[float] = []
    gateway: list[float] = []
    leash: list[float] = []
    with installation(pool=1, tools=True) as daemon, direct_mcp() as server, _echo(engine) as attached:
        client = daemon.client()
        for _ in range(plan.gateway_rounds):
            direct += _direct_calls(server, plan.gateway_calls)
            reply = client.execute(timed_tool_calls(plan.gateway_calls), Language.TYPESCRIPT)
            through += [milliseconds / 1000 for milliseconds in json.loads(reply.output)]
            gateway += [milliseconds / 1000 for milliseconds in reply.tool_call_ms[1:]]
            leash += _round_trips(attached, plan.gateway_calls)
            daemon.settle()
        client.close()
    return _overhead(direct, through, gateway, leash)


@contextmanager
def _echo(engine: Engine) -> Iterator[socket.socket]:
    """A container that gives back what it is given, over the engine's attached streams: the floor of every call."""
    api = engine.api.api
    config = {
        "Image": RUNNER_IMAGE,
        "Entrypoint": ["/bin/cat"],
        "NetworkDisabled": True,
        "Labels": {LABEL: engine.run_id},
        **dict.fromkeys(("OpenStdin", "StdinOnce", "AttachStdin", "AttachStdout"), True),
        "HostConfig": {"AutoRemove": True, "LogConfig": {"Type": "none"}},
    }
    container = api.create_container_from_config(config)["Id"]
    hijacked = api.attach_socket(container, {"stdin": 1, "stdout": 1, "stream": 1})
    api.start(container)
    with socket.socket(fileno=os.dup(hijacked.fileno())) as attached:
        hijacked._response.close()
        yield attached


def _round_trips(attached: socket.socket, count: int) -> list[float]:
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        attached.sendall(bytes(MESSAGE_BYTES))
        missing = MESSAGE_BYTES + ENGINE_HEADER_BYTES
        while missing > 0:
            missing -= len(attached.recv(missing))
        taken.append(time.perf_counter() - began)
    return taken


def _direct_calls(server: DirectMcp, calls: int) -> list[float]:
    server.call()
    taken = []
    for _ in range(calls):
        began = time.perf_counter()
        server.call()
        taken.append(time.perf_counter() - began)
    return taken


def _overhead(direct: list[float], through: list[float], gateway: list[float], leash: list[float]) -> GatewayOverhead:
    alone, seen, inside, floor = summary(direct), summary(through), summary(gateway), summary(leash)
    say(f"  a tool call: {alone.p50_ms:.2f} ms directly, {seen.p50_ms:.2f} ms in a program")
    say(f"  the engine's streams alone, there and back: {floor.p50_ms:.2f} ms")
    return GatewayOverhead(
        direct=alone,
        through=seen,
        gateway=inside,
        leash=floor,
        overhead_p50_ms=seen.p50_ms - alone.p50_ms,
        overhead_p99_ms=seen.p99_ms - alone.p99_ms,
    )

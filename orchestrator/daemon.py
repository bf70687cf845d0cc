"""The composition root: builds everything, runs it under one TaskGroup, undoes it in reverse."""

from __future__ import annotations

import asyncio
import gc
import os
import secrets
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import structlog
from aiohttp import web

from orchestrator import __version__
from orchestrator.adapters.access_files import AccessFiles
from orchestrator.adapters.client_library import ClientLibrary
from orchestrator.adapters.matrix import MatrixHomeserver
from orchestrator.adapters.metrics import Metrics
from orchestrator.adapters.tokens import O200kTokenCounter
from orchestrator.catalog.catalog import Catalog
from orchestrator.catalog.observations import Observations
from orchestrator.catalog.toolbox import Toolbox
from orchestrator.domain.errors import OrchestratorError
from orchestrator.domain.execution import ExecutionResult
from orchestrator.engines.docker.engine import DockerEngine
from orchestrator.engines.docker.lockdown import Confinement, Identity
from orchestrator.faces.auth import Authenticator
from orchestrator.faces.context import Services
from orchestrator.faces.gateway.app import Gateway
from orchestrator.faces.http.app import build_app
from orchestrator.faces.mcp.server import McpFace, build_mcp_face
from orchestrator.faces.rebinding import HostCheck
from orchestrator.journals.sqlite import SqliteJournal
from orchestrator.service.admission import Admission
from orchestrator.service.chat import Chat
from orchestrator.service.chat_server import ChatServer
from orchestrator.service.direct_calls import DirectCalls
from orchestrator.service.executions import Executions, ProgramRules
from orchestrator.service.ports import Engine
from orchestrator.service.provisions import Provisions
from orchestrator.service.readiness import Readiness
from orchestrator.service.reaper import Reaper
from orchestrator.service.records import Records
from orchestrator.service.sandboxes import Sandboxes
from orchestrator.service.servers import Servers
from orchestrator.service.tool_calls import Policy, ToolCalls
from orchestrator.service.warm_pool import WarmPool
from orchestrator.settings import Settings
from orchestrator.upstreams.servers_file import read_servers
from orchestrator.upstreams.upstreams import Upstreams
from orchestrator.upstreams.watched_file import WatchedServersFile
from orchestrator.wrappers.wrapper_files import WrapperFiles

log = structlog.get_logger()

SPARE_ENGINE_CALLS = 8
STRAY_AFTER_SECONDS = 60.0
ACCESS_CHECK_SECONDS = 1.0
# One byte of code can take six in JSON (\\u00e9), and the rest of the body is small.
JSON_EXPANSION = 6
BODY_ALLOWANCE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Daemon:
    """A running daemon, as its owner sees it."""

    port: int
    executions: Executions
    readiness: Readiness
    reaper: Reaper


async def serve(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stop.set)
    async with running_daemon(settings) as daemon:
        # The engine's calls run on threads; the event loop should not wait 5 ms for each of them to give way.
        sys.setswitchinterval(0.0005)
        # A full collection of what was loaded by now would stop the event loop for 30 ms, again and again.
        gc.freeze()
        log.info("daemon.listening", host=settings.host, port=daemon.port, version=__version__)
        await stop.wait()
        log.info("daemon.stopping")
    log.info("daemon.stopped")


@asynccontextmanager
async def running_daemon(settings: Settings) -> AsyncIterator[Daemon]:
    """Build everything and keep it running; what was built last is undone first."""
    async with AsyncExitStack() as undo:
        instance = instance_id(settings.instance_file)
        journal = SqliteJournal(settings.journal_file, max_executions=settings.journal_max_executions)
        undo.push_async_callback(journal.close)
        access = AccessFiles(settings.roles_file, settings.keys_dir)
        tools = _build_tools(settings, access, journal, undo)
        programs = _build_programs(settings, access, journal, tools, instance, undo)
        try:
            await programs.readiness.recover()
        except OrchestratorError as error:  # then the daemon is not ready until it succeeds
            log.error("journal.unavailable", error=error.message)
        await asyncio.to_thread(tools.tokens.count, "the first count loads the vocabulary")
        loops = await undo.enter_async_context(Loops.running())
        _start_loops(loops, settings, access, tools, programs)
        services = Services(
            executions=programs.executions,
            records=Records(journal, programs.executions.find_running),
            direct_calls=DirectCalls(tools.calls, journal, instance),
            authenticator=Authenticator(access),
            hosts=HostCheck(frozenset(settings.allowed_hosts)),
            readiness=programs.readiness,
            tokens=tools.tokens,
            catalog=tools.catalog,
            toolbox=tools.toolbox,
            chat=tools.chat,
            max_body_bytes=settings.max_code_bytes * JSON_EXPANSION + BODY_ALLOWANCE_BYTES,
            heartbeat_seconds=settings.heartbeat_seconds,
            render_metrics=programs.metrics.render,
            version=__version__,
            started_at=time.monotonic(),
        )
        mcp = build_mcp_face(services, settings.mcp_reply_tokens, settings.mcp_progress_seconds)
        loops.run("mcp", mcp.run)
        port = await undo.enter_async_context(_listening(services, mcp, settings))
        undo.push_async_callback(programs.executions.drain, settings.shutdown_grace_seconds)
        yield Daemon(port, programs.executions, programs.readiness, programs.reaper)


@dataclass(frozen=True, slots=True)
class Tools:
    """Everything about tools that the faces and the sandboxes share."""

    tokens: O200kTokenCounter
    chat: Chat
    upstreams: Upstreams
    servers_file: WatchedServersFile
    catalog: Catalog
    observations: Observations
    toolbox: Toolbox
    calls: ToolCalls
    gateway: Gateway


def _build_tools(settings: Settings, access: AccessFiles, journal: SqliteJournal, undo: AsyncExitStack) -> Tools:
    tokens, observations, homeserver = O200kTokenCounter(), Observations(), None
    if settings.matrix_homeserver is not None and settings.matrix_token is not None:
        homeserver = MatrixHomeserver(settings.matrix_homeserver, settings.matrix_token.get_secret_value())
        undo.push_async_callback(homeserver.close)
    chat = Chat(homeserver, settings.matrix_default_room)
    upstreams = Upstreams(
        read_servers(settings.servers_file, settings.variables),
        relist_seconds=settings.relist_seconds,
        call_timeout_seconds=settings.tool_timeout_seconds,
        max_result_bytes=settings.max_tool_result_bytes,
        on_change=lambda: catalog.refresh(),  # noqa: PLW0108  (the catalog is made from the upstreams, just below)
    )
    servers = Servers(upstreams, ChatServer(chat))
    catalog = Catalog(servers, tokens)
    catalog.refresh()  # what is built in is there from the start
    toolbox = Toolbox(catalog, observations)
    calls = ToolCalls(
        toolbox, servers, observations, access, journal, settings.gateway_limits, build_policies(settings)
    )
    gateway = Gateway(calls, toolbox, settings.max_tool_request_bytes)
    undo.push_async_callback(gateway.shut_down)
    return Tools(
        tokens=tokens,
        chat=chat,
        upstreams=upstreams,
        servers_file=WatchedServersFile(settings.servers_file, settings.variables, upstreams),
        catalog=catalog,
        observations=observations,
        toolbox=toolbox,
        calls=calls,
        gateway=gateway,
    )


@dataclass(frozen=True, slots=True)
class Programs:
    """Everything that runs programs and looks after their sandboxes."""

    executions: Executions
    pool: WarmPool
    readiness: Readiness
    reaper: Reaper
    metrics: Metrics


def _build_programs(
    settings: Settings,
    access: AccessFiles,
    journal: SqliteJournal,
    tools: Tools,
    instance: str,
    undo: AsyncExitStack,
) -> Programs:
    engine = build_engine(settings, instance)
    undo.push_async_callback(engine.close)
    sandboxes = Sandboxes(engine, tools.gateway.accept)
    undo.push_async_callback(sandboxes.all_destroyed)
    provisions = Provisions([ClientLibrary(settings.client_library), WrapperFiles(tools.catalog, tools.observations)])
    pool = WarmPool(sandboxes, lambda: provisions.recipes(access.book), settings.limits(None), settings.pool_size)
    undo.callback(pool.close)
    admission = Admission(
        max_running=settings.max_running,
        max_waiting=settings.max_waiting,
        max_running_per_caller=settings.max_running_per_caller,
        max_waiting_per_caller=settings.max_waiting_per_caller,
    )
    metrics = Metrics(_gauges(admission, sandboxes, pool))
    readiness = Readiness(engine, journal, instance)
    executions = Executions(
        ProgramRules(settings.max_code_bytes, settings.max_timeout_seconds, settings.limits),
        admission,
        pool,
        provisions,
        tools.calls,
        journal,
        readiness,
        instance,
        on_finished=_observer(metrics),
    )
    reaper = Reaper(engine, lambda: sandboxes.ids, stray_after_seconds=STRAY_AFTER_SECONDS)
    return Programs(executions, pool, readiness, reaper, metrics)


def _start_loops(loops: Loops, settings: Settings, access: AccessFiles, tools: Tools, programs: Programs) -> None:
    async def take_up_access_changes() -> None:
        access.refresh()
        tools.calls.drop_grants_of_lost_keys()

    loops.run("upstreams", tools.upstreams.run)
    loops.repeat("readiness", programs.readiness.check, settings.check_seconds)
    loops.repeat("records", programs.executions.record_what_is_missing, settings.check_seconds)
    loops.repeat("reaper", programs.reaper.remove_orphans, settings.check_seconds)
    loops.repeat("access", take_up_access_changes, ACCESS_CHECK_SECONDS)
    loops.repeat("servers", tools.servers_file.take_up_changes, settings.check_seconds)
    loops.repeat("pool", programs.pool.tend, 0)


def build_policies(settings: Settings) -> tuple[Policy, ...]:
    """Return what looks at every tool call before it is sent and, in reverse order, at its result."""
    return ()


def build_engine(settings: Settings, owner: str) -> Engine:
    confinement = Confinement(
        image=settings.runner_image,
        network=settings.network,
        seccomp_profile=settings.seccomp_file.read_text(),
        runtime=settings.runtime,
    )
    identity = Identity(owner=owner, epoch=secrets.token_hex(8))
    return DockerEngine(
        settings.docker_host, confinement, identity, max_calls=2 * settings.max_running + SPARE_ENGINE_CALLS
    )


def instance_id(file: Path) -> str:
    """Return the name of this installation, by which it tells its own containers from others'."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        fresh = file.with_suffix(f".{os.getpid()}")
        fresh.write_text(secrets.token_hex(8))
        fresh.replace(file)
    return file.read_text().strip()


@asynccontextmanager
async def _listening(services: Services, mcp: McpFace, settings: Settings) -> AsyncIterator[int]:
    # A client that goes away cancels its handler, and the handler its execution.
    runner = web.AppRunner(
        build_app(services, mcp.handle),
        access_log=None,
        auto_decompress=False,
        handler_cancellation=True,
        shutdown_timeout=1.0,
        keepalive_timeout=75,
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, settings.host, settings.port)
        await site.start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


class Loops:
    """A loop logs its failure and goes on; if its task ends all the same, the daemon ends with it."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._started: list[asyncio.Task[None]] = []

    @classmethod
    @asynccontextmanager
    async def running(cls) -> AsyncIterator[Self]:
        async with asyncio.TaskGroup() as tasks:
            loops = cls(tasks)
            try:
                yield loops
            finally:
                for task in loops._started:
                    task.cancel()

    def run(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._started.append(self._tasks.create_task(work(), name=name))

    def repeat(self, name: str, work: Callable[[], Awaitable[object]], every_seconds: float) -> None:
        async def forever() -> None:
            while True:
                try:
                    await work()
                except OrchestratorError as error:
                    log.warning("loop.failed", loop=name, error=error.message)
                except Exception:
                    log.exception("loop.crashed", loop=name)
                await asyncio.sleep(every_seconds)

        self.run(name, forever)


def _gauges(admission: Admission, sandboxes: Sandboxes, pool: WarmPool) -> dict[str, tuple[str, Callable[[], float]]]:
    return {
        "code_executor_running": ("Executions that run now.", lambda: admission.running),
        "code_executor_waiting": ("Executions that wait for a turn.", lambda: admission.waiting),
        "code_executor_warm": ("Warm sandboxes that wait.", lambda: pool.idle),
        "code_executor_preloaded": (
            "Warm sandboxes that also have the client library loaded.",
            lambda: pool.preloaded,
        ),
        "code_executor_sandboxes": ("Sandboxes that exist now.", lambda: len(sandboxes.ids)),
    }


def _observer(metrics: Metrics) -> Callable[[ExecutionResult], None]:
    def observe(result: ExecutionResult) -> None:
        metrics.observe(result)
        record = result.record
        log.info(
            "execution.finished",
            execution_id=record.id,
            caller=record.caller,
            language=record.language,
            outcome=record.outcome,
            exit_code=record.exit_code,
            seconds=round(record.timings.total_seconds, 4),
            output_bytes=record.stdout_bytes,
            error_code=record.error_code,
        )

    return observe

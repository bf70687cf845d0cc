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
from typing import Any

import structlog
from aiohttp import web

from orchestrator import __version__
from orchestrator.adapters.access_files import AccessFiles
from orchestrator.adapters.matrix import MatrixHomeserver
from orchestrator.adapters.metrics import Metrics
from orchestrator.adapters.tokens import O200kTokenCounter
from orchestrator.catalog.catalog import Catalog
from orchestrator.catalog.observations import Observations
from orchestrator.catalog.toolbox import Toolbox
from orchestrator.domain.errors import OrchestratorError
from orchestrator.domain.execution import Execution, ExecutionResult
from orchestrator.engines.docker.engine import DockerEngine
from orchestrator.engines.docker.lockdown import Identity, Policy
from orchestrator.engines.docker.slots import Slots
from orchestrator.engines.runner.relay import Accept
from orchestrator.faces.auth import Authenticator
from orchestrator.faces.gateway.app import Gateway
from orchestrator.faces.http.app import build_app, max_body_bytes
from orchestrator.faces.http.context import Api, ApiLimits
from orchestrator.faces.mcp.face import build_mcp_face
from orchestrator.faces.mcp.server import McpFace
from orchestrator.faces.rebinding import HostCheck
from orchestrator.journals.sqlite import SqliteJournal
from orchestrator.service.admission import Admission
from orchestrator.service.chat import Chat
from orchestrator.service.chat_server import ChatServer
from orchestrator.service.executions import Executor
from orchestrator.service.readiness import Readiness
from orchestrator.service.reaper import Reaper
from orchestrator.service.sandboxes import Sandboxes
from orchestrator.service.servers import Servers
from orchestrator.service.warm_pool import WarmPool
from orchestrator.settings import Settings
from orchestrator.upstreams.servers_file import read_servers
from orchestrator.upstreams.upstreams import Upstreams
from orchestrator.upstreams.watched_file import WatchedServersFile
from orchestrator.wrappers.workspaces import Workspaces

log = structlog.get_logger()

SPARE_ENGINE_CALLS = 8
STRAY_AFTER_SECONDS = 60.0
ACCESS_CHECK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Daemon:
    """A running daemon, as its owner sees it."""

    port: int
    executor: Executor
    readiness: Readiness
    reaper: Reaper


async def serve(settings: Settings) -> None:
    """Runs until SIGTERM or SIGINT."""
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
    async with AsyncExitStack() as undo:
        journal = SqliteJournal(settings.journal_file, max_executions=settings.journal_max_executions)
        undo.push_async_callback(journal.close)
        access = AccessFiles(settings.roles_file, settings.keys_dir)
        homeserver = _homeserver(settings)
        if homeserver is not None:
            undo.push_async_callback(homeserver.close)
        chat = Chat(homeserver, settings.matrix_default_room)
        tools = _tools(settings, chat)
        gateway = Gateway(tools.toolbox, tools.observations, tools.servers, access, journal, settings.gateway_limits)
        undo.push_async_callback(gateway.shut_down)

        engine = build_engine(settings, instance_id(settings.instance_file), gateway.accept)
        undo.push_async_callback(engine.close)
        slots = Slots(engine)
        undo.push_async_callback(slots.retire_all)
        sandboxes = Sandboxes(engine, slots)
        undo.push_async_callback(sandboxes.all_destroyed)
        pool = WarmPool(
            sandboxes, lambda: tools.workspaces.recipes(access.book), settings.limits(None), settings.pool_size
        )
        undo.callback(pool.close)

        admission = Admission(
            max_running=settings.max_running,
            max_waiting=settings.max_waiting,
            max_running_per_caller=settings.max_running_per_caller,
            max_waiting_per_caller=settings.max_waiting_per_caller,
        )
        metrics = Metrics(_gauges(admission, sandboxes, pool))
        readiness = Readiness(engine, journal)
        executor = Executor(
            admission, pool, tools.workspaces, gateway, journal, readiness, on_finished=_observer(metrics)
        )
        reaper = Reaper(engine, lambda: sandboxes.ids | slots.ids, stray_after_seconds=STRAY_AFTER_SECONDS)
        await _recovered(readiness)
        await asyncio.to_thread(tools.tokens.count, "the first count loads the vocabulary")

        loops = await undo.enter_async_context(_background())
        loops.run("upstreams", tools.upstreams.run)
        loops.repeat("readiness", readiness.check, settings.check_seconds)
        loops.repeat("records", executor.record_what_is_missing, settings.check_seconds)
        loops.repeat("reaper", reaper.remove_orphans, settings.check_seconds)
        loops.repeat("access", _access_watch(access, gateway), ACCESS_CHECK_SECONDS)
        loops.repeat("servers", tools.servers_file.take_up_changes, settings.check_seconds)
        loops.repeat("pool", pool.tend, 0)

        api = _api(settings, executor, journal, access, readiness, metrics, tools, chat)
        mcp = build_mcp_face(
            api, settings.mcp_reply_tokens, settings.mcp_progress_seconds, max_body_bytes(settings.max_code_bytes)
        )
        loops.run("mcp", mcp.run)
        port = await undo.enter_async_context(_listening(api, mcp, settings))
        undo.push_async_callback(executor.drain, settings.shutdown_grace_seconds)
        yield Daemon(port, executor, readiness, reaper)


@dataclass(frozen=True, slots=True)
class Tools:
    """Everything about tools that is shared by the faces, the gateway and the sandboxes."""

    tokens: O200kTokenCounter
    upstreams: Upstreams
    servers: Servers
    servers_file: WatchedServersFile
    catalog: Catalog
    observations: Observations
    toolbox: Toolbox
    workspaces: Workspaces


def _homeserver(settings: Settings) -> MatrixHomeserver | None:
    if settings.matrix_homeserver is None or settings.matrix_token is None:
        return None
    return MatrixHomeserver(settings.matrix_homeserver, settings.matrix_token.get_secret_value())


def _tools(settings: Settings, chat: Chat) -> Tools:
    tokens, observations = O200kTokenCounter(), Observations()
    entries = read_servers(settings.servers_file, settings.variables)
    upstreams = Upstreams(
        entries,
        relist_seconds=settings.relist_seconds,
        call_timeout_seconds=settings.tool_timeout_seconds,
        max_result_bytes=settings.max_tool_result_bytes,
        on_change=lambda: catalog.refresh(),  # noqa: PLW0108  (the catalog is made from the upstreams, just below)
    )
    servers = Servers(upstreams, ChatServer(chat))
    catalog = Catalog(servers, tokens)
    catalog.refresh()  # what is built in is there from the start
    return Tools(
        tokens=tokens,
        upstreams=upstreams,
        servers=servers,
        servers_file=WatchedServersFile(settings.servers_file, settings.variables, upstreams),
        catalog=catalog,
        observations=observations,
        toolbox=Toolbox(catalog, observations),
        workspaces=Workspaces(catalog, observations, settings.client_library),
    )


def refuse_connections(slot_id: str) -> asyncio.Protocol:
    return asyncio.Protocol()


def build_engine(settings: Settings, owner: str, accept: Accept = refuse_connections) -> DockerEngine:
    policy = Policy(
        image=settings.runner_image,
        network=settings.network,
        seccomp_profile=settings.seccomp_file.read_text(),
        runtime=settings.runtime,
    )
    identity = Identity(owner=owner, epoch=secrets.token_hex(8))
    return DockerEngine(
        settings.docker_host,
        policy,
        identity,
        accept=accept,
        max_calls=2 * settings.max_running + SPARE_ENGINE_CALLS,
    )


def instance_id(file: Path) -> str:
    """Names this installation, so that it removes its own containers and nobody else's."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        fresh = file.with_suffix(f".{os.getpid()}")
        fresh.write_text(secrets.token_hex(8))
        fresh.replace(file)
    return file.read_text().strip()


def _api(
    settings: Settings,
    executor: Executor,
    journal: SqliteJournal,
    access: AccessFiles,
    readiness: Readiness,
    metrics: Metrics,
    tools: Tools,
    chat: Chat,
) -> Api:
    return Api(
        executor=executor,
        journal=journal,
        authenticator=Authenticator(access),
        hosts=HostCheck(frozenset(settings.allowed_hosts)),
        readiness=readiness,
        tokens=tools.tokens,
        catalog=tools.catalog,
        toolbox=tools.toolbox,
        chat=chat,
        limits=ApiLimits(
            max_code_bytes=settings.max_code_bytes,
            max_timeout_seconds=settings.max_timeout_seconds,
            heartbeat_seconds=settings.heartbeat_seconds,
            limits_for=settings.limits,
        ),
        render_metrics=metrics.render,
        version=__version__,
        started_at=time.monotonic(),
    )


@asynccontextmanager
async def _listening(api: Api, mcp: McpFace, settings: Settings) -> AsyncIterator[int]:
    # A client that goes away cancels its handler, and the handler its execution.
    runner = web.AppRunner(
        build_app(api, mcp.handle),
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


async def _recovered(readiness: Readiness) -> None:
    try:
        await readiness.recover()
    except OrchestratorError as error:  # then the daemon is not ready until it succeeds
        log.error("journal.unavailable", error=error.message)


class Loops:
    """A loop logs its failure and goes on; if its task ends all the same, the daemon ends with it."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._started: list[asyncio.Task[None]] = []

    def repeat(self, name: str, work: Callable[[], Awaitable[object]], every_seconds: float) -> None:
        self.run(name, lambda: _repeat(name, work, every_seconds))

    def run(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._started.append(self._tasks.create_task(work(), name=name))

    def stop(self) -> None:
        for task in self._started:
            task.cancel()


@asynccontextmanager
async def _background() -> AsyncIterator[Loops]:
    async with asyncio.TaskGroup() as tasks:
        loops = Loops(tasks)
        try:
            yield loops
        finally:
            loops.stop()


async def _repeat(name: str, work: Callable[[], Awaitable[object]], every_seconds: float) -> None:
    while True:
        try:
            await work()
        except OrchestratorError as error:
            log.warning("loop.failed", loop=name, error=error.message)
        except Exception:
            log.exception("loop.crashed", loop=name)
        await asyncio.sleep(every_seconds)


def _access_watch(access: AccessFiles, gateway: Gateway) -> Callable[[], Awaitable[None]]:
    async def take_up_changes() -> None:
        access.refresh()
        gateway.drop_grants_of_lost_keys()

    return take_up_changes


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


def _observer(metrics: Metrics) -> Callable[[Execution, ExecutionResult], None]:
    def observe(execution: Execution, result: ExecutionResult) -> None:
        metrics.observe(execution, result)
        log.info(
            "execution.finished",
            execution_id=execution.id,
            caller=execution.caller.key_name,
            language=execution.language.value,
            outcome=result.outcome.value,
            exit_code=result.ending.exit_code,
            seconds=round(result.timings.total_seconds, 4),
            output_bytes=len(result.stdout),
            error_code=result.ending.error_code,
        )

    return observe

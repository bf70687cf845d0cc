"""The composition root: builds everything, runs it under one TaskGroup, undoes it in reverse."""

from __future__ import annotations

import asyncio
import gc
import resource
import secrets
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Self

import structlog
from aiohttp import web

from orchestrator import __version__
from orchestrator.adapters.access_files import AccessFiles
from orchestrator.adapters.client_library import ClientLibrary
from orchestrator.adapters.contents import StoredContents
from orchestrator.adapters.matrix import MatrixHomeserver
from orchestrator.adapters.memory import give_back_memory
from orchestrator.adapters.metrics import Gauges, Metrics, memory_limit_bytes
from orchestrator.adapters.skill_library import SkillLibrary, read_library
from orchestrator.adapters.tokens import O200kTokenCounter
from orchestrator.catalog.catalog import Catalog, Edition, Listed
from orchestrator.catalog.observations import Observations
from orchestrator.catalog.toolbox import Toolbox
from orchestrator.domain.access import SKILLS
from orchestrator.domain.configuration import HeldConfiguration, HeldSetting
from orchestrator.domain.errors import OrchestratorError
from orchestrator.domain.events import Load
from orchestrator.domain.execution import ExecutionRecord, ExecutionResult, Language, Outcome, Shares
from orchestrator.engines.docker.engine import DockerEngine
from orchestrator.engines.docker.launcher_client import LauncherClient
from orchestrator.engines.docker.launcher_process import LauncherProcess
from orchestrator.faces.auth import Authenticator
from orchestrator.faces.console.pages import Console
from orchestrator.faces.context import Services
from orchestrator.faces.gateway.app import Gateway
from orchestrator.faces.http.app import build_app
from orchestrator.faces.http.connection import Connection
from orchestrator.faces.http.connections import ConnectionLimits, Connections
from orchestrator.faces.intake import Intake
from orchestrator.faces.mcp.server import McpFace, build_mcp_face
from orchestrator.faces.rebinding import HostCheck
from orchestrator.faces.uploads import Uploads
from orchestrator.instance import instance_id, lock_data_directory
from orchestrator.journals.file_index import SqliteFileIndex
from orchestrator.journals.sign_ins import SqliteSignIns
from orchestrator.journals.skills import SqliteSkills
from orchestrator.journals.sqlite import SqliteJournal
from orchestrator.service.admission import Admission
from orchestrator.service.chat import Chat
from orchestrator.service.chat_server import ChatServer
from orchestrator.service.direct_calls import DirectCalls
from orchestrator.service.events import Events
from orchestrator.service.executions import Executions, ProgramRules
from orchestrator.service.files import Files
from orchestrator.service.ports import Engine
from orchestrator.service.provisions import Provisions
from orchestrator.service.quota import Quota
from orchestrator.service.readiness import Readiness
from orchestrator.service.reaper import Reaper
from orchestrator.service.records import Records
from orchestrator.service.renewal import Renewal
from orchestrator.service.sandboxes import Sandboxes
from orchestrator.service.servers import Servers
from orchestrator.service.sign_ins import SignIns
from orchestrator.service.skill_calls import SkillCalls
from orchestrator.service.skill_drift import SkillDrift
from orchestrator.service.skill_files import SkillCode
from orchestrator.service.skill_proofs import ProofPrograms, SkillProofs
from orchestrator.service.skill_saving import SkillSaving
from orchestrator.service.skill_shelf import SkillShelf
from orchestrator.service.skills import Skills
from orchestrator.service.tool_calls import Policy, ToolCalls
from orchestrator.service.warm_pool import WarmPool
from orchestrator.service.workspaces import Workspaces
from orchestrator.settings import SKILL_LIBRARY, Settings
from orchestrator.settings_in_effect import Source, in_effect
from orchestrator.upstreams.servers_directory import read_all_servers
from orchestrator.upstreams.upstreams import Upstreams
from orchestrator.upstreams.variables import Variables
from orchestrator.upstreams.watched_file import WatchedServersFile
from orchestrator.wrappers.skill_sources import WrittenSources
from orchestrator.wrappers.wrapper_files import WrapperFiles

log = structlog.get_logger()

STRAY_AFTER_SECONDS = 60.0
LAST_SWEEP_SECONDS = 5.0
ACCESS_CHECK_SECONDS = 0.5  # a key that was taken away is of no use after a second
EVENTS_SECONDS = 0.5
PROGRAMS_CHECK_SECONDS = 600.0
FILES_CHECK_SECONDS = 5.0
SKILLS_CHECK_SECONDS = 0.5
SKILL_USES_SECONDS = 2.0
SIGN_INS_CHECK_SECONDS = 5.0  # what has ended is of no use all the same
RECHECK_SECONDS = 1.0  # what is wrong is looked at more often than what is well
BACKLOG = 1024
UNIDENTIFIED_BYTES = 32 * 1024 * 1024


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
        lock_data_directory(settings.instance_file.parent)
        instance = instance_id(settings.instance_file)
        journal = SqliteJournal(settings.journal_file, max_executions=settings.journal_max_executions)
        undo.push_async_callback(journal.close)
        access = AccessFiles(settings.roles_file, settings.keys_dir)
        sign_ins, events = SignIns(access, SqliteSignIns(journal)), Events()
        tools = _build_tools(settings, access, journal, events, undo)
        intake = Intake(
            total_bytes=settings.max_intake_bytes,
            per_caller_bytes=settings.max_intake_bytes_per_caller,
            max_body_bytes=settings.max_body_bytes,
            body_seconds=settings.body_seconds,
        )
        connections = Connections(_connection_limits(settings))
        storage = _build_storage(settings, journal, undo)
        programs = _build_programs(
            settings, access, journal, tools, storage, instance, intake, connections, events, undo
        )
        skills = _build_skills(settings, tools, programs, Records(journal, programs.executions.find_running))
        undo.push_async_callback(_write_uses, tools.shelf)
        try:
            await programs.readiness.recover()
        except OrchestratorError as error:  # then the daemon is not ready until it succeeds
            log.error("journal.unavailable", error=error.message)
        await sign_ins.load()
        await asyncio.to_thread(tools.tokens.count, "the first count loads the vocabulary")
        await programs.renewal.renew()  # what is built in is there from the start
        loops = await undo.enter_async_context(Loops.running())
        _start_loops(loops, settings, access, tools, storage, programs, skills, instance, sign_ins, events, journal)
        count_own = lru_cache(maxsize=64)(tools.tokens.count)

        def tell_direct_call(record: ExecutionRecord) -> None:
            events.tell_execution(record)
            programs.metrics.observe_calls(record.tool_calls)  # there are none before its end

        services = Services(
            executions=programs.executions,
            records=Records(journal, programs.executions.find_running),
            files=storage.files,
            workspaces=storage.workspaces,
            skills=skills,
            direct_calls=DirectCalls(tools.calls, journal, programs.executions.ends, instance, tell_direct_call),
            authenticator=Authenticator(access, sign_ins),
            sign_ins=sign_ins,
            events=events,
            load=programs.load,
            hosts=HostCheck(frozenset(settings.allowed_hosts)),
            readiness=programs.readiness,
            tokens=tools.tokens,
            catalog=tools.catalog,
            toolbox=tools.toolbox,
            questions=tools.calls.rooms.questions,
            chat=tools.chat,
            intake=intake,
            uploads=Uploads(max_bytes=settings.max_upload_bytes, piece_seconds=settings.body_seconds),
            heartbeat_seconds=settings.heartbeat_seconds,
            render_metrics=programs.metrics.render,
            metrics_token_sha256=settings.metrics_token_sha256,
            held_configuration=partial(_held_configuration, settings, access, tools),
            own_tokens=lambda role: count_own(mcp.definitions(role)),
            version=__version__,
            started_at=time.monotonic(),
        )
        mcp = build_mcp_face(
            services,
            reply_tokens=settings.mcp_reply_tokens,
            progress_seconds=settings.mcp_progress_seconds,
            structured=settings.mcp_structured,
            with_packages=settings.runner_packages,
        )
        loops.run("mcp", mcp.run)
        pages = await asyncio.to_thread(Console, settings.console_dir)
        if pages.problem is not None:
            log.warning("console.incomplete", directory=str(settings.console_dir))
        port = await undo.enter_async_context(_listening(services, mcp, pages, connections, settings))
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
    changed: asyncio.Event  # what the servers list has changed
    observations: Observations
    library: SkillLibrary
    shelf: SkillShelf
    toolbox: Toolbox
    calls: ToolCalls
    gateway: Gateway


def _held_configuration(settings: Settings, access: AccessFiles, tools: Tools) -> HeldConfiguration:
    return HeldConfiguration(
        settings={
            each.field: HeldSetting(each.value, each.source is not Source.DEFAULT) for each in in_effect(settings)
        },
        started_in=str(settings.started_in) if settings.started_in is not None else None,
        roles_file=access.roles_in_force,
        book=access.book,
        servers_file=tools.servers_file.in_force,
        servers=tuple(status.server for status in tools.catalog.statuses()),
    )


def _build_tools(
    settings: Settings, access: AccessFiles, journal: SqliteJournal, events: Events, undo: AsyncExitStack
) -> Tools:
    tokens, observations, homeserver = O200kTokenCounter(), Observations(), None
    changed = asyncio.Event()
    if settings.matrix_homeserver is not None and settings.matrix_token is not None:
        homeserver = MatrixHomeserver(settings.matrix_homeserver, settings.matrix_token.get_secret_value())
        undo.push_async_callback(homeserver.close)
    chat = Chat(homeserver, settings.matrix_default_room)
    variables = Variables(settings.variables, settings.server_secrets_dir)
    upstreams = Upstreams(
        read_all_servers(settings.servers_file, settings.servers_dir, variables),
        relist_seconds=settings.relist_seconds,
        call_timeout_seconds=settings.tool_timeout_seconds,
        max_result_bytes=settings.max_tool_result_bytes,
        on_change=changed.set,
    )
    servers = Servers(upstreams, ChatServer(chat), reserved=frozenset({SKILLS}))
    library = read_library(SKILL_LIBRARY)
    shelf = SkillShelf(SqliteSkills(journal), library.skills, changed.set)
    catalog = Catalog(servers, tokens, shelf.offered)
    toolbox = Toolbox(catalog, observations)
    calls = ToolCalls(
        toolbox,
        servers,
        observations,
        access,
        journal,
        settings.gateway_limits,
        build_policies(settings),
        settings.room_limits,
        watch=events.tell_call,
    )
    gateway = Gateway(calls, toolbox, settings.max_tool_request_bytes, settings.tool_stall_seconds)
    undo.push_async_callback(gateway.shut_down)
    return Tools(
        tokens=tokens,
        chat=chat,
        upstreams=upstreams,
        servers_file=WatchedServersFile(settings.servers_file, variables, upstreams, settings.servers_dir),
        catalog=catalog,
        changed=changed,
        observations=observations,
        library=library,
        shelf=shelf,
        toolbox=toolbox,
        calls=calls,
        gateway=gateway,
    )


@dataclass(frozen=True, slots=True)
class Storage:
    """What is kept of executions besides their records."""

    files: Files
    workspaces: Workspaces


def _build_storage(settings: Settings, journal: SqliteJournal, undo: AsyncExitStack) -> Storage:
    contents, index = StoredContents(settings.contents_dir), SqliteFileIndex(journal)
    undo.callback(contents.close)
    quota = Quota(index, Shares(settings.max_stored_bytes, settings.max_stored_bytes_per_caller))
    workspaces = Workspaces(
        index,
        contents,
        quota,
        versions=settings.workspace_versions,
        max_workspaces_per_caller=settings.max_workspaces_per_caller,
        limits=settings.file_rules.workspace,
        max_waiting=settings.max_waiting,
        max_waiting_per_caller=settings.max_waiting_per_caller,
    )
    return Storage(Files(journal, index, contents, quota, settings.file_rules), workspaces)


@dataclass(frozen=True, slots=True)
class Programs:
    """Everything that runs programs and looks after their sandboxes."""

    executions: Executions
    pool: WarmPool
    provisions: Provisions
    library: ClientLibrary
    renewal: Renewal[Listed, Edition]
    readiness: Readiness
    reaper: Reaper
    metrics: Metrics
    load: Callable[[], Load]


def _build_programs(
    settings: Settings,
    access: AccessFiles,
    journal: SqliteJournal,
    tools: Tools,
    storage: Storage,
    instance: str,
    intake: Intake,
    connections: Connections,
    events: Events,
    undo: AsyncExitStack,
) -> Programs:
    engine = build_engine(settings, instance)
    undo.push_async_callback(engine.close)
    sandboxes = Sandboxes(engine, tools.gateway.accept)
    reaper = Reaper(engine, lambda: sandboxes.ids, stray_after_seconds=STRAY_AFTER_SECONDS)
    undo.push_async_callback(reaper.remove_what_is_left, LAST_SWEEP_SECONDS)
    undo.push_async_callback(sandboxes.all_destroyed)
    wrappers = WrapperFiles(lambda: tools.catalog.latest, tools.observations)
    library = ClientLibrary(settings.client_library)
    code = SkillCode(lambda: tools.catalog.latest, tools.shelf.code)
    provisions = Provisions([library, wrappers, code])
    renewal = Renewal(
        tools.catalog, provisions, tools.observations, lambda: tuple(access.book.roles.values()), tools.changed
    )
    longest = settings.limits(settings.max_timeout_seconds)
    pool = WarmPool(sandboxes, lambda: provisions.recipes(access.book), longest, settings.pool_size)
    undo.callback(pool.close)
    admission = Admission(
        max_running=settings.max_running,
        max_waiting=settings.max_waiting,
        max_running_per_caller=settings.max_running_per_caller,
        max_waiting_per_caller=settings.max_waiting_per_caller,
    )
    readiness = Readiness(engine, journal, instance, tools.shelf.load)
    metrics = Metrics(
        _gauges(admission, sandboxes, pool)
        | _intake_gauges(intake, connections)
        | _session_gauges(tools.upstreams)
        | _state_gauges(settings, readiness),
        tools.catalog,
    )
    executions = Executions(
        ProgramRules(
            settings.max_code_bytes,
            settings.max_timeout_seconds,
            settings.limits,
            settings.places_in_background,
            keeps_programs=settings.journal_programs == "keep",
        ),
        admission,
        pool,
        provisions,
        tools.calls,
        journal,
        readiness,
        storage.files,
        storage.workspaces,
        instance,
        on_finished=_observer(metrics, connections),
        tell=events.tell_execution,
    )

    def load() -> Load:
        problem = readiness.problem.message if readiness.problem is not None else None
        return Load(admission.running, admission.waiting, pool.idle, len(sandboxes.ids), readiness.ready, problem)

    return Programs(executions, pool, provisions, library, renewal, readiness, reaper, metrics, load)


def _build_skills(settings: Settings, tools: Tools, programs: Programs, records: Records) -> Skills:
    sources, shelf = WrittenSources(), tools.shelf
    calls = SkillCalls(
        shelf,
        sources,
        programs.executions,
        programs.pool,
        programs.provisions,
        tools.calls.grants,
        settings.limits,
        lambda role: tools.catalog.latest.importable(role),  # noqa: PLW0108  (the latest changes)
        settings.places_nested,
    )
    tools.calls.skills = programs.executions.own_files = calls
    examiners = {language: (settings.skill_programs / f"examine{language.suffix}").read_text() for language in Language}
    looking = ProofPrograms(examiners, (settings.skill_programs / "check.py").read_text())
    proofs = SkillProofs(programs.executions, sources, programs.library.of, looking)
    saving = SkillSaving(shelf, proofs, records, tools.toolbox, tools.catalog, settings.max_skills_per_author)
    drift = SkillDrift(
        shelf, proofs, tools.catalog.statuses, lambda: tools.catalog.latest, tools.library.recordings.get
    )
    return Skills(shelf, saving, calls, drift)


async def _write_uses(shelf: SkillShelf) -> None:
    with suppress(OrchestratorError):  # they are only counted
        await shelf.write_uses()


def _start_loops(
    loops: Loops,
    settings: Settings,
    access: AccessFiles,
    tools: Tools,
    storage: Storage,
    programs: Programs,
    skills: Skills,
    instance: str,
    sign_ins: SignIns,
    events: Events,
    journal: SqliteJournal,
) -> None:
    async def take_up_access_changes() -> None:
        access.refresh()
        tools.calls.drop_grants_of_lost_keys()

    async def look_around() -> None:
        events.tell_load(programs.load())
        events.tell_servers(tools.catalog.statuses())

    async def forget_old_programs() -> None:
        kept_for = settings.program_ttl_seconds if settings.journal_programs == "keep" else 0.0
        await journal.forget_programs_before(time.time() - kept_for)

    async def check_readiness() -> None:
        await programs.readiness.check()
        # A journal that took another's place learns at once of what is under way, and under which name.
        await programs.executions.record_what_is_missing()
        with suppress(OSError):  # then the journal cannot be written either, and its check has told so
            instance_id(settings.instance_file, instance)

    async def remove_old_files() -> None:
        if storage.files.need_sweeping:
            with suppress(OrchestratorError):  # a journal that fails is told by its own check
                await storage.files.remove_what_is_old(lambda: programs.executions.contents_in_use)

    def until_next_check() -> float:
        return settings.check_seconds if programs.readiness.ready else min(settings.check_seconds, RECHECK_SECONDS)

    loops.run("upstreams", tools.upstreams.run)
    loops.repeat("readiness", check_readiness, until_next_check)
    loops.repeat("findings", programs.readiness.look_now_and_then, settings.check_seconds)
    loops.repeat("reaper", programs.reaper.remove_orphans, settings.check_seconds)
    loops.repeat("files", remove_old_files, FILES_CHECK_SECONDS)
    loops.repeat("memory", give_back_memory, settings.check_seconds)
    loops.repeat("programs", forget_old_programs, PROGRAMS_CHECK_SECONDS)
    loops.repeat("events", look_around, EVENTS_SECONDS)
    loops.repeat("access", take_up_access_changes, ACCESS_CHECK_SECONDS)
    loops.repeat("skills", skills.drift.take_up_changes, SKILLS_CHECK_SECONDS)
    loops.repeat("skills_waiting", partial(skills.drift.take_up_changes, of_approved=False), SKILLS_CHECK_SECONDS)
    loops.repeat("skill_uses", skills.shelf.write_uses, SKILL_USES_SECONDS)
    loops.repeat("sign_ins", sign_ins.drop_ended, SIGN_INS_CHECK_SECONDS)
    loops.repeat("servers", tools.servers_file.take_up_changes, settings.check_seconds)
    loops.repeat("renewal", programs.renewal.take_up_changes, 0)
    loops.repeat("pool", programs.pool.tend, 0)


def build_policies(settings: Settings) -> tuple[Policy, ...]:
    """Return what looks at every tool call before it is sent and, in reverse order, at its result."""
    return ()


def build_engine(settings: Settings, owner: str) -> Engine:
    """Use the launcher that the settings name or, without one, a launcher of our own."""
    epoch = secrets.token_hex(8)
    if (path := settings.launcher_socket) is not None:
        return DockerEngine(LauncherClient(lambda: _resolved(path)), epoch, on_close=_nothing)
    process = LauncherProcess(owner, settings.for_launcher)
    return DockerEngine(LauncherClient(process.where), epoch, on_close=process.end)


async def _resolved(path: Path) -> Path:
    return path


async def _nothing() -> None:
    return


@asynccontextmanager
async def _listening(
    services: Services, mcp: McpFace, pages: Console, connections: Connections, settings: Settings
) -> AsyncIterator[int]:
    # A client that goes away cancels its handler, and the handler its execution.
    runner = web.AppRunner(
        build_app(services, mcp.handle, pages.routes), handler_cancellation=True, shutdown_timeout=1.0
    )
    await runner.setup()
    assert runner.server is not None  # noqa: S101  (it is set up)
    listener = await asyncio.get_running_loop().create_server(
        partial(Connection, connections, runner.server), settings.host, settings.port, backlog=BACKLOG
    )
    try:
        yield int(listener.sockets[0].getsockname()[1])
    finally:
        listener.close()
        await runner.cleanup()


def _connection_limits(settings: Settings) -> ConnectionLimits:
    max_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    has_bound = max_files != resource.RLIM_INFINITY
    executions_of_a_caller = settings.max_running_per_caller + settings.max_waiting_per_caller
    return ConnectionLimits(
        in_all=min(settings.max_connections, max_files // 2) if has_bound else settings.max_connections,
        per_address=settings.max_connections_per_address,
        per_caller=max(settings.max_connections_per_caller, executions_of_a_caller),
        requests_per_second=settings.max_requests_per_second,
        header_bytes=settings.max_header_bytes,
        header_seconds=settings.header_seconds,
        stall_seconds=settings.stall_seconds,
        unidentified_bytes=UNIDENTIFIED_BYTES,
        unread_bytes=settings.max_unread_bytes,
    )


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

    def repeat(
        self, name: str, work: Callable[[], Awaitable[object]], every_seconds: float | Callable[[], float]
    ) -> None:
        async def forever() -> None:
            while True:
                try:
                    await work()
                except OrchestratorError as error:
                    log.warning("loop.failed", loop=name, error=error.message)
                except Exception:
                    log.exception("loop.crashed", loop=name)
                await asyncio.sleep(every_seconds() if callable(every_seconds) else every_seconds)

        self.run(name, forever)


def _intake_gauges(intake: Intake, connections: Connections) -> Gauges:
    return {
        "code_executor_connections": ("Connections to the API.", lambda: len(connections)),
        "code_executor_intake_bytes": ("Bytes reserved for bodies of requests.", lambda: intake.taken),
    }


def _gauges(admission: Admission, sandboxes: Sandboxes, pool: WarmPool) -> Gauges:
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


def _session_gauges(upstreams: Upstreams) -> Gauges:
    return {
        "code_executor_server_sessions": (
            "Sessions that MCP servers have for executions.",
            lambda: upstreams.own_sessions,
        ),
    }


def _state_gauges(settings: Settings, readiness: Readiness) -> Gauges:
    return {
        "code_executor_ready": ("1 while an execution would work.", lambda: readiness.ready),
        "code_executor_max_running": ("Most executions that run at once.", lambda: settings.max_running),
        "code_executor_max_waiting": ("Most executions that wait for a turn.", lambda: settings.max_waiting),
        "code_executor_warm_floor": (
            "Warm sandboxes that are kept for each role and language.",
            lambda: settings.warm_floor,
        ),
        "code_executor_memory_limit_bytes": ("Memory that the daemon may use.", memory_limit_bytes),
    }


def _observer(metrics: Metrics, connections: Connections) -> Callable[[ExecutionResult], None]:
    def observe(result: ExecutionResult) -> None:
        metrics.observe(result)
        record = result.record
        if record.outcome is Outcome.CANCELLED:
            connections.note_cancelled(record.caller)
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

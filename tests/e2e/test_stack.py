"""The default stack of MCP servers: real servers, a real database, real proxies, beside any stack that runs here."""

from __future__ import annotations

import asyncio
import http.client
import json
import secrets
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.api import Api
from tests.support.installation import Installation
from tests.support.proving import library, require_proven_as_kept
from tests.support.stack import PROJECT, address_of, compose_command, direct, logs_of, run, settings_in, urls_in

CHOSEN = PROJECT / ".build" / "stack"
READY_SECONDS = 120
# The first test waits for all servers to come up, too.
pytestmark = pytest.mark.timeout(400)
PROBE_IMAGE = "mcp-code-executor/orchestrator:latest"
KILL = r"""
import os, pathlib, signal, sys
program, argument = map(os.fsencode, sys.argv[1:])
for line in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
    words = line.read_bytes().split(b"\0")
    if words[0] == program and any(argument in word for word in words) and int(line.parent.name) != os.getpid():
        os.kill(int(line.parent.name), signal.SIGKILL)
"""
PROBE = """
import socket, sys
for place in sys.argv[1:]:
    try:
        socket.create_connection(place.split(":"), timeout=2)
        print(place)
    except OSError:
        pass
"""
WRITE_LARGE_FILE = "open('/workspace/large.txt', 'w').write('x' * 16_000_000)"
SERVERS = ("filesystem", "memory", "postgres")
READERS = 32
# What a caller of a server sees that is away or ends while it answers.
AWAY = (OSError, http.client.HTTPException, json.JSONDecodeError)


class RpcError(Exception):
    pass


@dataclass(frozen=True, slots=True)
class RunningStack:
    prefix: str
    variables: dict[str, str]
    directory: Path
    urls: dict[str, str]
    compose: tuple[str, ...]
    environment: dict[str, str]

    @property
    def has_one_proxy(self) -> bool:
        return "MCP_PROXY_TOKEN" in self.variables

    def container(self, server: str) -> str:
        return f"{self.prefix}{urlsplit(self.urls[server]).hostname}"

    def address(self, server: str) -> str:
        """The engine publishes nothing on a network without a way out, but this machine is on all of them."""
        url = urlsplit(self.urls[server])
        return url._replace(netloc=f"{address_of(self.container(server))}:{url.port}").geturl()

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.variables['MCP_PROXY_TOKEN']}"} if self.has_one_proxy else {}

    def request(self, server: str, method: str, params: dict[str, Any] | None = None) -> Any:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        request = urllib.request.Request(self.address(server), body, headers | self.headers())
        with direct().open(request, timeout=60) as reply:
            answer = parse(reply.read().decode())
        if "error" in answer:
            raise RpcError(answer["error"]["message"])
        return answer["result"]

    def call(self, server: str, tool: str, **arguments: Any) -> str:
        result = self.request(server, "tools/call", {"name": tool, "arguments": arguments})
        text = "\n".join(content["text"] for content in result["content"] if content["type"] == "text")
        if result.get("isError"):
            raise RpcError(text)
        return text

    def sql(self, statement: str) -> str:
        return self.call("postgres", "execute_sql", sql=statement)

    def accepts(self, statement: str) -> bool:
        try:
            self.sql(statement)
        except RpcError:
            return False
        return True

    @contextmanager
    def database_with(self, **settings: str) -> Iterator[None]:
        """The same database with other settings, until the context is left."""
        try:
            run(*self.compose, "up", "-d", "mcp-postgres", **self.environment, **settings)
            self.wait_until_it_answers()
            yield
        finally:
            run(*self.compose, "up", "-d", "mcp-postgres", **self.environment)
            self.wait_until_it_answers()

    def psql(self, statement: str) -> str:
        superuser = ("psql", "-U", "postgres", "-v", "ON_ERROR_STOP=1", "-Atc", statement, "app")
        return run("docker", "exec", f"{self.prefix}mcp-postgres", *superuser).strip()

    def wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not all(map(self.answers, SERVERS)):
            assert time.monotonic() < deadline, [logs_of(self.container(server)) for server in SERVERS]
            time.sleep(0.2)

    def answers(self, server: str) -> bool:
        try:
            self.use(server)
        except (*AWAY, RpcError):
            return False
        return True

    def use(self, server: str) -> None:
        match server:
            case "filesystem":
                self.call("filesystem", "list_allowed_directories")
            case "memory":
                self.call("memory", "read_graph")
            case "postgres":
                self.call("postgres", "execute_sql", sql="SELECT 1")

    def started_at(self, server: str) -> str:
        return run("docker", "inspect", "--format", "{{.State.StartedAt}}", self.container(server))


def parse(text: str) -> Any:
    """A reply is plain JSON or one event of a stream."""
    lines = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:")]
    return json.loads("".join(lines) or text)


def chosen_images() -> dict[str, str]:
    if not (CHOSEN / "services").exists():
        pytest.fail("The stack is not prepared: 'make test' does it, or run 'make stack' first.")
    lines = (CHOSEN / "compose.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    directory = tmp_path_factory.mktemp("stack")
    directory.chmod(0o755)
    prefix = f"test-{secrets.token_hex(4)}-"
    images = chosen_images()
    variables = settings_in(directory, "pulled" if "MCP_PROXY_IMAGE" in images else "ours", SERVERS)
    settings = directory / ".build" / "stack"
    environment = {**images, **variables, "STACK_PREFIX": prefix, "STACK_DIR": str(settings)}
    files = ("-f", "compose.yaml", "-f", str(settings / "networks.yaml"), "--project-directory", str(PROJECT))
    compose = (*compose_command(), *files, "--project-name", prefix.rstrip("-"))
    try:
        urls = urls_in(settings / "daemon" / "servers.json")
        running = RunningStack(prefix, variables, directory, urls, compose, environment)
        containers = {urlsplit(url).hostname or "" for url in running.urls.values()}
        run(*compose, "up", "-d", "mcp-postgres", *containers, **environment)
        running.wait_until_it_answers()
        yield running
    finally:
        run(*compose, "down", "--volumes", **environment)


@pytest.mark.parametrize(
    ("server", "tools"),
    [
        ("filesystem", {"read_text_file", "write_file", "list_directory"}),
        ("memory", {"create_entities", "search_nodes"}),
        ("postgres", {"execute_sql", "list_tables"}),
    ],
)
def test_each_server_introduces_itself_and_lists_its_tools(stack: RunningStack, server: str, tools: set[str]) -> None:
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    assert stack.request(server, "initialize", client)["serverInfo"]["name"]
    assert tools <= {tool["name"] for tool in stack.request(server, "tools/list")["tools"]}


def test_a_file_written_through_the_proxy_is_read_back(stack: RunningStack) -> None:
    stack.call("filesystem", "write_file", path="/workspace/note.txt", content="kept")
    assert stack.call("filesystem", "read_text_file", path="/workspace/note.txt") == "kept"


def test_files_outside_of_the_workspace_are_refused(stack: RunningStack) -> None:
    with pytest.raises(RpcError, match="outside allowed directories"):
        stack.call("filesystem", "read_text_file", path="/config/config.json")


def test_sql_reads_the_sample_with_numbers_as_numbers(stack: RunningStack) -> None:
    sql = "SELECT count(*) AS items, sum(unit_price) AS price, min(quantity) AS least FROM order_items"
    assert json.loads(stack.sql(sql)) == {"items": 48, "price": 1256.2, "least": 1}


def test_sql_writes_what_it_may_and_each_row_is_a_content(stack: RunningStack) -> None:
    stack.sql("CREATE TABLE IF NOT EXISTS notes (id int PRIMARY KEY, text text)")
    stack.sql("INSERT INTO notes VALUES (1, 'first'), (2, 'second') ON CONFLICT DO NOTHING")
    rows = stack.sql("SELECT id, text FROM notes ORDER BY id").splitlines()
    assert [json.loads(row) for row in rows] == [{"id": 1, "text": "first"}, {"id": 2, "text": "second"}]
    assert stack.sql("SELECT id FROM notes WHERE id > 2") == ""


def test_sql_reads_what_the_owner_of_the_database_wrote_but_does_not_change_it(stack: RunningStack) -> None:
    stack.psql("CREATE TABLE payments (id int, total numeric); INSERT INTO payments VALUES (1, 9.5), (2, 120)")
    assert json.loads(stack.sql("SELECT id FROM payments WHERE total > 100")) == {"id": 2}
    with pytest.raises(RpcError, match="permission denied for table payments"):
        stack.sql("DELETE FROM payments")


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT pg_read_file('/etc/passwd')",
        "COPY pg_class TO PROGRAM 'cat >/tmp/out'",
        "COPY customers TO '/tmp/out'",
        "CREATE TEMP TABLE mine (id int)",
        "CREATE ROLE mine SUPERUSER",
        "ALTER ROLE mcp_user SUPERUSER",
        "SET ROLE postgres",
        "SET temp_file_limit = '100GB'",
        "UPDATE pg_authid SET rolsuper = true",
        "ALTER SYSTEM SET work_mem = '1GB'",
        "CREATE EXTENSION dblink",
        "DROP SCHEMA public CASCADE",
    ],
)
def test_sql_cannot_reach_beyond_its_database_or_take_other_rights(stack: RunningStack, statement: str) -> None:
    with pytest.raises(RpcError, match=r"permission denied|must be superuser|must be owner"):
        stack.sql(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "select pg_terminate_backend(pg_backend_pid())",
        "select pg_cancel_backend(pg_backend_pid())",
        "select pg_sleep(20)",
        "select pg_sleep_for('20 s')",
        "select pg_advisory_lock(1)",
        "select pg_try_advisory_lock_shared(1, 2)",
        "select lo_from_bytea(0, 'kept')",
        "select lo_create(0)",
        "select pg_logical_emit_message(false, 'x', 'kept')",
    ],
)
def test_sql_cannot_end_a_shared_session_or_lock_or_sleep_in_it_or_fill_the_disk(
    stack: RunningStack, statement: str
) -> None:
    with pytest.raises(RpcError, match="permission denied for function"):
        stack.sql(statement)
    assert "42" in stack.sql("select 42 as answer")


def test_a_slow_query_holds_up_no_other(stack: RunningStack) -> None:
    with ThreadPoolExecutor(1) as thread:
        slow = thread.submit(stack.sql, "select count(*) from generate_series(1, 10000000)")
        answered = 0
        while not slow.done():
            stack.sql("select 1")
            answered += 1
    assert "10000000" in slow.result()
    assert answered > 1


def test_what_sql_does_to_its_own_role_is_undone_when_the_database_starts(stack: RunningStack) -> None:
    for change in ("password 'stolen'", "set search_path = 'nowhere'", "set local_preload_libraries = 'nosuch'"):
        stack.sql(f"alter role mcp_user {change}")
    assert "nosuch" in stack.psql("select rolconfig from pg_roles where rolname = 'mcp_user'")  # the control
    run("docker", "restart", f"{stack.prefix}mcp-postgres")
    stack.wait_until_it_answers()
    assert "nosuch" not in stack.psql("select rolconfig from pg_roles where rolname = 'mcp_user'")


# What a caller could leave behind in order to write later all the same.
LEFT_BEHIND = (
    "CREATE TABLE kept (id int)",
    "GRANT ALL ON kept TO PUBLIC",
    "GRANT ALL ON ALL TABLES IN SCHEMA public TO mcp_reader WITH GRANT OPTION",
    "CREATE VIEW window_on_kept AS SELECT * FROM kept",
    "GRANT ALL ON window_on_kept TO PUBLIC",
    "CREATE SCHEMA annex",
    "GRANT ALL ON SCHEMA annex TO PUBLIC",
    "CREATE FUNCTION sneak(int, int) RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS "
    "$$ BEGIN INSERT INTO public.kept VALUES (1); RETURN 1; END $$",
    "CREATE AGGREGATE sneak_all(int) (sfunc = sneak, stype = int, initcond = '0')",
)


def test_a_database_that_is_set_to_be_read_only_is_written_by_nobody(stack: RunningStack) -> None:
    for statement in LEFT_BEHIND:
        stack.sql(statement)
    stack.sql("INSERT INTO kept VALUES (sneak(0, 0))")  # the control
    before = stack.psql("SELECT count(*) FROM kept")
    assert before == "2"
    with stack.database_with(MCP_POSTGRES_READ_ONLY="true"):
        assert json.loads(stack.sql("SELECT count(*) AS rows FROM kept")) == {"rows": 2}
        stack.sql("SET default_transaction_read_only = off")
        for attempt in (
            "INSERT INTO kept VALUES (3)",
            "DO $$ BEGIN INSERT INTO kept VALUES (3); END $$",
            "INSERT INTO window_on_kept VALUES (3)",
            "UPDATE customers SET name = ''",
            "DROP TABLE kept",
            "CREATE TABLE mine (id int)",
            "CREATE TABLE annex.mine (id int)",
            "CREATE SCHEMA mine",
            "SELECT sneak(0, 0)",
            "SELECT sneak_all(1)",
            "SET ROLE mcp_owner",
        ):
            with pytest.raises(RpcError, match=r"permission denied|must be owner"):
                stack.sql(attempt)
        assert stack.psql("SELECT count(*) FROM kept") == before
        statements = ("-c", "SET default_transaction_read_only = off", "-c", "INSERT INTO kept VALUES (3)")
        as_reader = ("psql", "-h", "127.0.0.1", "-U", "mcp_reader", *statements, "app")
        reader = f"PGPASSWORD={stack.variables['MCP_POSTGRES_READER_PASSWORD']}"
        refused = subprocess.run(
            ("docker", "exec", "-e", reader, f"{stack.prefix}mcp-postgres", *as_reader), capture_output=True, text=True
        )
        assert "permission denied for table kept" in refused.stderr
    stack.sql("INSERT INTO kept VALUES (4)")


def test_a_volume_that_is_full_is_written_by_nobody_until_there_is_room_again(stack: RunningStack) -> None:
    measure = ("du", "-sm", "--exclude=pg_wal", "/var/lib/postgresql/data")
    used = int(run("docker", "exec", f"{stack.prefix}mcp-postgres", *measure).split()[0])
    with stack.database_with(MCP_POSTGRES_MAX_MEGABYTES=str(used + 30)):
        with pytest.raises(RpcError, match="terminating connection"):
            stack.sql("CREATE TABLE big AS SELECT repeat(md5(g::text), 100) AS r FROM generate_series(1, 5000000) g")
        stack.wait_until_it_answers()  # nothing of it was committed, so there is room again
        deadline = time.monotonic() + READY_SECONDS
        while not stack.accepts("CREATE TABLE IF NOT EXISTS small (id int)"):
            assert time.monotonic() < deadline, logs_of(f"{stack.prefix}mcp-postgres")
            time.sleep(0.5)


def test_temporary_files_of_a_query_have_a_limit(stack: RunningStack) -> None:
    rows = "select repeat(md5(g::text), 20) r from generate_series(1, 3000000) g order by 1"
    with pytest.raises(RpcError, match="temp_file_limit"):
        stack.sql(f"select count(*) from ({rows}) sorted where r <> ''")


def test_memory_and_files_survive_a_restart(stack: RunningStack) -> None:
    entity = {"name": "Ada", "entityType": "person", "observations": ["wrote the first program"]}
    stack.call("memory", "create_entities", entities=[entity])
    stack.call("filesystem", "write_file", path="/workspace/lasting.txt", content="kept")
    run("docker", "restart", *{stack.container("memory"), stack.container("filesystem")})
    stack.wait_until_it_answers()
    assert "wrote the first program" in stack.call("memory", "search_nodes", query="Ada")
    assert stack.call("filesystem", "read_text_file", path="/workspace/lasting.txt") == "kept"


@pytest.fixture
def apart(stack: RunningStack) -> RunningStack:
    if stack.has_one_proxy:
        pytest.skip("a pulled proxy holds its servers together, and keeps a dead one; the daemon shows it as down")
    return stack


def wait_until_restarted(stack: RunningStack, server: str, before: str) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while stack.started_at(server) == before:
        assert time.monotonic() < deadline, f"the container of {server} lives on"
        time.sleep(0.2)
    stack.wait_until_it_answers()


@pytest.mark.parametrize("process", [("node", "server-memory"), ("python3", "mcp_proxy")], ids=["server", "proxy"])
def test_a_server_that_is_killed_comes_back_and_no_other_notices(apart: RunningStack, process: tuple[str, str]) -> None:
    before = {server: apart.started_at(server) for server in SERVERS}
    # The container may end before the command does.
    subprocess.run(("docker", "exec", apart.container("memory"), "python3", "-c", KILL, *process), capture_output=True)
    wait_until_restarted(apart, "memory", before["memory"])
    assert apart.call("memory", "read_graph")
    assert {server for server in SERVERS if apart.started_at(server) != before[server]} == {"memory"}


def test_a_server_that_runs_out_of_memory_comes_back_while_the_others_answer(apart: RunningStack) -> None:
    run("docker", "exec", apart.container("filesystem"), "python3", "-c", WRITE_LARGE_FILE)
    began = int(time.time())
    before = {server: apart.started_at(server) for server in SERVERS}
    deadline = time.monotonic() + READY_SECONDS
    answered = 0
    with ThreadPoolExecutor(READERS) as readers:
        reading = [readers.submit(read_until_it_dies, apart, before["filesystem"], deadline) for _ in range(READERS)]
        while not all(reader.done() for reader in reading):
            for server in ("memory", "postgres"):
                apart.use(server)
                answered += 1
    assert ran_out_of_memory(apart.container("filesystem"), began)
    assert answered
    wait_until_restarted(apart, "filesystem", before["filesystem"])
    assert {server for server in SERVERS if apart.started_at(server) != before[server]} == {"filesystem"}


def read_until_it_dies(stack: RunningStack, before: str, deadline: float) -> None:
    while stack.started_at("filesystem") == before and time.monotonic() < deadline:
        with suppress(*AWAY, RpcError):
            stack.call("filesystem", "read_text_file", path="/workspace/large.txt")


def ran_out_of_memory(container: str, began: int) -> bool:
    """Node.js ends by itself at half of the limit; otherwise the kernel ends the proxy or the server."""
    window = ("--since", str(began), "--until", str(int(time.time()) + 1), "--filter", f"container={container}")
    by_kernel = run("docker", "events", *window, "--filter", "event=oom")
    return bool(by_kernel) or "JavaScript heap out of memory" in logs_of(container)


@pytest.mark.parametrize("network", SERVERS)
def test_a_server_reaches_no_other_and_the_database_is_reached_by_its_server_alone(
    apart: RunningStack, network: str
) -> None:
    places = {f"{address_of(apart.container(server))}:9090": server for server in SERVERS}
    places[f"{address_of(f'{apart.prefix}mcp-postgres')}:5432"] = "database"
    inside = ("--rm", "--network", f"{apart.prefix}mcp-backend-{network}", "--entrypoint", "/usr/bin/python3")
    reached = run("docker", "run", *inside, PROBE_IMAGE, "-I", "-S", "-c", PROBE, *places).split()
    wanted = {"postgres", "database"} if network == "postgres" else {network}
    assert {places[place] for place in reached} == wanted


@pytest.mark.parametrize("server", SERVERS)
def test_a_server_has_its_own_files_and_secrets_alone(apart: RunningStack, server: str) -> None:
    given = run("docker", "inspect", "--format", "{{json .Config.Env}} {{json .Mounts}}", apart.container(server))
    has = {
        "filesystem": f"{apart.prefix}mcp-code-executor-workspace" in given,
        "memory": f"{apart.prefix}mcp-code-executor-memory" in given,
        "postgres": apart.variables["MCP_POSTGRES_PASSWORD"] in given,
    }
    assert [name for name, found in has.items() if found] == [server]


def test_the_password_is_in_no_log_no_settings_and_no_image(stack: RunningStack) -> None:
    password = stack.variables["MCP_POSTGRES_PASSWORD"]
    server = stack.container("postgres")
    containers = (server, f"{stack.prefix}mcp-postgres")
    images = [run("docker", "inspect", "--format", "{{.Image}}", name).strip() for name in containers]
    seen = [run("docker", "image", "inspect", *images), *map(logs_of, containers)]
    seen += [path.read_text() for path in (stack.directory / ".build").rglob("*") if path.is_file()]
    assert [text for text in seen if password in text] == []
    assert run("docker", "inspect", server).count(password), "the search would not find it anywhere"


# The four validations of the system that this one reproduces, through a daemon of our own in front of the stack.

WORKFLOW = """
import { execute_sql } from '/workspace/servers/postgres/execute_sql.js';
import { write_file } from '/workspace/servers/filesystem/write_file.js';
const rows: any = await execute_sql({ sql: 'SELECT name, value FROM metrics ORDER BY name' });
const critical = rows.filter((row: any) => row.value > 100);
await write_file({ path: '/workspace/critical.csv', content: critical.map((row: any) => row.name).join('\\n') });
console.log(`Exported ${critical.length} of ${rows.length} metrics`);
"""


@pytest.fixture(scope="module")
async def api(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    directory = tmp_path_factory.mktemp("daemon")
    servers = {name: {"type": "http", "url": stack.address(name), "headers": stack.headers()} for name in SERVERS}
    servers["postgres"]["contents"] = "list"
    (directory / "servers.json").write_text(json.dumps({"mcpServers": servers}))
    async with Installation.create(directory, servers_file=directory / "servers.json").run() as api:
        await eventually(lambda: listed_tools(api), 31)
        yield api


async def listed_tools(api: Api) -> int:
    _, health = await api.get("/health")
    return int(health["totalTools"])


async def eventually(read: Callable[[], Awaitable[int]], wanted: int) -> None:
    async with asyncio.timeout(READY_SECONDS):
        while await read() != wanted:
            await asyncio.sleep(0.2)


async def test_a_simple_program_executes(api: Api) -> None:
    assert (await api.typescript("console.log(2+2)"))["output"] == "4\n"


async def test_a_program_discovers_every_server_and_tool(api: Api) -> None:
    code = "const { listServers, listTools } = await import('/workspace/servers/discovery.js');"
    code += "console.log(JSON.stringify(await listServers()), (await listTools()).length);"
    assert (await api.typescript(code))["output"] == '["filesystem","memory","postgres"] 31\n'


async def test_the_programs_of_the_readme_print_what_it_says(api: Api) -> None:
    readme = (PROJECT / "README.md").read_text().partition("## Programs that call tools")[2]
    typescript, python, console = (
        readme.partition(f"```{language}\n")[2].partition("```")[0] for language in ("typescript", "python", "console")
    )
    outputs = [line for line in console.splitlines() if not line.startswith("$")]
    results = [await api.typescript(typescript), await api.python(python)]
    assert [result["output"].strip() for result in results] == outputs, [result["stderr"] for result in results]


@pytest.mark.parametrize(("where", "found"), [("false", "0 []"), ("id = 1", "1 [1]"), ("id < 3", "2 [1, 2]")])
async def test_rows_are_a_list_whether_there_are_none_one_or_many(api: Api, where: str, found: str) -> None:
    code = "from servers.postgres import execute_sql\n"
    code += f'rows = execute_sql(sql="select id from customers where {where} order by id")\n'
    code += "print(len(rows), [row['id'] for row in rows])"
    assert (await api.python(code))["output"] == f"{found}\n"


async def test_the_examples_of_tools_that_only_read_work(api: Api, stack: RunningStack) -> None:
    stack.call("filesystem", "write_file", path="/workspace/example.txt", content="an example")
    _, listing = await api.get("/tools?detail=full")
    reading = [
        (server, tool["name"])
        for server, tools in listing["tools"].items()
        for tool in tools
        if tool.get("annotations", {}).get("readOnlyHint") or tool["name"] == "execute_sql"
    ]
    assert len(reading) > 15
    failed = {}
    for server, name in reading:
        _, about = await api.get(f"/tools/info/{server}/{name}")
        for run_program, language in ((api.python, "python"), (api.typescript, "typescript")):
            ended = await run_program(about[language]["example"])
            if ended["outcome"] != "completed":
                failed[f"{server}/{name} in {language}"] = ended["stderr"]
    assert failed == {}


async def test_rows_of_different_questions_are_known_as_objects_only(api: Api) -> None:
    code = "from servers.postgres import execute_sql\n"
    for columns in ("id, name", "id, country"):
        await api.python(f'{code}execute_sql(sql="select {columns} from customers")')
    _, about = await api.get("/tools/info/postgres/execute_sql")
    assert about["resultShape"] == "observed"
    assert about["typescript"]["signature"].endswith("Promise<Record<string, JsonValue>[]> /* observed */")
    assert about["python"]["signature"].endswith("-> list[dict[str, Any]]  # observed")


async def test_a_program_calls_one_tool(api: Api) -> None:
    code = "from servers.filesystem import list_allowed_directories\nprint(list_allowed_directories())"
    assert "/workspace" in (await api.python(code))["output"]


async def test_a_program_queries_the_database_filters_and_writes_a_file(api: Api, stack: RunningStack) -> None:
    stack.psql("CREATE TABLE IF NOT EXISTS metrics (name text, value int)")
    stack.psql("TRUNCATE metrics; INSERT INTO metrics VALUES ('a', 50), ('b', 150), ('c', 101)")
    result = await api.typescript(WORKFLOW)
    assert result["output"] == "Exported 2 of 3 metrics\n", result["stderr"]
    assert [(call["server"], call["outcome"]) for call in result["toolCalls"]] == [
        ("postgres", "done"),
        ("filesystem", "done"),
    ]
    assert "b\nc" in stack.call("filesystem", "read_text_file", path="/workspace/critical.csv")


@pytest.mark.parametrize("name", [name for name in library() if name != "rows_to_objects"])
async def test_a_skill_that_comes_along_is_proven_on_the_real_servers(api: Api, name: str) -> None:
    """The one that is left out needs a server that is asked for by name: tests/servers/test_skills.py."""
    await require_proven_as_kept(api, name)

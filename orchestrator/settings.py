"""The only reader of the environment. Every field is CODE_EXECUTOR_<NAME>; docs/configuration.md is made from here."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from orchestrator.domain.access import hash_key
from orchestrator.domain.execution import FileRules, GatewayLimits, Language, Limits, RoomLimits, Shares
from orchestrator.domain.files import FileLimits
from orchestrator.domain.sandbox import PoolSize
from orchestrator.domain.skills import MAX_DEPTH
from orchestrator.service.complaints import MUST_BE

PREFIX = "CODE_EXECUTOR_"
MIB = 1024 * 1024
LARGEST_PORT = 65535
PROJECT = Path(__file__).resolve().parent.parent
ENV_FILE = PROJECT / ".env"
SPARE_ENGINE_CALLS = 8
# Besides those that run: what is being removed, or was just made for the next.
SPARE_SANDBOXES = 8
SKILL_LIBRARY = Path(__file__).resolve().parent / "skills"
# One byte of code can take six in JSON (\\u00e9), and the rest of the body is small.
JSON_EXPANSION = 6
BODY_ALLOWANCE_BYTES = 64 * 1024
LAUNCHER_FIELDS = (
    *("docker_host", "runner_image", "runtime", "seccomp_file", "memory_bytes", "cpus", "max_processes"),
    *("workspace_bytes", "scratch_bytes", "max_running", "max_sandboxes", "log_level", "log_format"),
)
# These are for binding; a client on this machine reaches them elsewhere.
_LOOPBACK_INSTEAD = dict.fromkeys(("", "0.0.0.0", "[::]"), "127.0.0.1")  # noqa: S104


def _published_url(validated: Mapping[str, Any]) -> str:
    host, _, port = validated.get("publish", "").rpartition(":")  # without one that is wrong, which is told
    return f"http://{_LOOPBACK_INSTEAD.get(host, host)}:{port}"


def _hashes_beside_the_keys(validated: Mapping[str, Any]) -> Path:
    return Path(validated["secrets_dir"]) / "hashes"


def _tokens_beside_the_keys(validated: Mapping[str, Any]) -> Path:
    return Path(validated["secrets_dir"]) / "own" / "daemon"


class Settings(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="ignore", populate_by_name=True, env_ignore_empty=True
    )

    host: str = Field("127.0.0.1", description="Address that the API listens on.")
    port: Annotated[int, Field(ge=0, le=65535)] = Field(9091, description="Port of the API.")
    data_dir: Path = Field(
        Path("~/.local/state/mcp-code-executor"), description="Where the journal and files are kept."
    )
    roles_file: Path = Field(PROJECT / "roles.json", description="Roles and the names of their keys.")
    secrets_dir: Path = Field(
        PROJECT / "secrets", description="Where the keys are; only the command line reads it, not the daemon."
    )
    keys_dir: Path = Field(
        default_factory=_hashes_beside_the_keys, description="Directory of the keys' hashes; it never holds the keys."
    )
    servers_file: Path = Field(
        Path("servers.json"), description="Upstream MCP servers, in the usual mcpServers form; the file may be missing."
    )
    servers_dir: Path = Field(
        PROJECT / "servers.d",
        description="Files of one upstream server each, besides the servers file; written by `code-executor servers`.",
    )
    server_secrets_dir: Path = Field(
        default_factory=_tokens_beside_the_keys,
        description="Files with what `${NAME}` stands for in those files, besides variables of the environment.",
    )
    relist_seconds: float = Field(60, gt=0, description="Time between listings of each upstream's tools.")
    client_library: Path = Field(
        PROJECT / "runner-image" / "client-library",
        description="The library that the generated wrappers use in a sandbox.",
    )
    skill_programs: Path = Field(
        PROJECT / "runner-image" / "skill-programs", description="The programs that look at a skill in a sandbox."
    )
    max_skills_per_author: int = Field(50, ge=0, le=10_000, description="Most skills in use that one caller saved.")
    max_nested: int = Field(
        4, ge=1, le=64, description="Most skills in the other language than their programs that run at once."
    )
    max_nested_per_caller: int = Field(2, ge=1, le=64, description="Most of them of one caller.")
    docker_host: str = Field(
        "unix:///var/run/docker.sock",
        description="The engine's socket.",
        validation_alias=AliasChoices(f"{PREFIX}DOCKER_HOST", "DOCKER_HOST"),
    )
    launcher_socket: Path | None = Field(
        None,
        description="Socket of the launcher, which alone holds the engine's; without one the daemon starts its own.",
    )
    runner_image: str = Field("mcp-code-executor/runner:latest", description="Image of the sandboxes.")
    runner_packages: bool = Field(
        True, description="Whether `make image` puts [packages](programs.md#packages) into the image of the sandboxes."
    )
    runtime: str = Field("runc", description="OCI runtime of the sandboxes, by the engine's name for it.")
    seccomp_file: Path = Field(
        PROJECT / "runner-image" / "seccomp.json", description="Seccomp profile of the sandboxes."
    )
    default_timeout_seconds: float = Field(
        300, gt=0, le=300, description="Time limit of a program whose caller asks for none."
    )
    max_timeout_seconds: float = Field(300, gt=0, le=300, description="Longest time limit a caller may ask for.")
    memory_bytes: int = Field(1024 * MIB, ge=64 * MIB, description="Memory of a sandbox; there is no swap.")
    cpus: float = Field(1.0, ge=0.01, le=64, description="CPUs of a sandbox.")
    max_processes: int = Field(256, ge=16, le=4096, description="Processes and threads in a sandbox.")
    workspace_bytes: int = Field(500 * MIB, ge=MIB, description="Size of /workspace, in memory.")
    scratch_bytes: int = Field(100 * MIB, ge=MIB, description="Size of /tmp and of /tmp/executions, in memory.")
    max_output_bytes: int = Field(
        100 * 1024,
        ge=1024,
        le=10 * MIB,
        description="Output that is kept of each stream; the rest is dropped.",
    )
    flood_bytes: int = Field(
        16 * MIB, ge=1024, le=1024 * MIB, description="Output to one stream that ends a program, kept or not."
    )
    max_files: int = Field(
        256, ge=0, le=10_000, description="Most files that one execution is given, and most that are kept of it."
    )
    max_file_bytes: int = Field(16 * MIB, ge=1024, le=1024 * MIB, description="Size limit of a file that is kept.")
    max_files_bytes: int = Field(
        64 * MIB,
        ge=1024,
        le=1024 * MIB,
        description="Size limit of all files that one execution is given, and of all that are kept of it.",
    )
    max_upload_bytes: int = Field(
        64 * MIB, ge=1024, le=1024 * MIB, description="Size limit of a file that is uploaded."
    )
    max_uploads_per_caller: int = Field(1000, ge=0, le=100_000, description="Most uploads of one caller.")
    file_ttl_seconds: float = Field(
        7 * 24 * 3600,
        gt=0,
        description="Time that files of executions and uploads are kept, if the journal keeps the execution so long.",
    )
    max_workspace_files: int = Field(2000, ge=1, le=100_000, description="Most files in a workspace.")
    max_workspace_bytes: int = Field(
        128 * MIB, ge=1024, le=1024 * MIB, description="Size limit of all files in a workspace."
    )
    workspace_versions: int = Field(5, ge=1, le=100, description="Versions that are kept of a workspace.")
    max_workspaces_per_caller: int = Field(100, ge=0, le=10_000, description="Most workspaces of one caller.")
    max_stored_bytes_per_caller: int = Field(
        2048 * MIB,
        ge=MIB,
        description="Size limit of all files, uploads and versions of workspaces of one caller. Its oldest files make "
        "room for new ones.",
    )
    max_stored_bytes: int = Field(10_240 * MIB, ge=MIB, description="Size limit of what is kept for all callers.")
    max_background: int = Field(
        4,
        ge=0,
        le=256,
        description="Most executions in the background, running or waiting, of all callers; always fewer than "
        "`CODE_EXECUTOR_MAX_RUNNING`, unless that is 1.",
    )
    max_background_per_caller: int = Field(2, ge=0, le=256, description="Most of them of one caller.")
    max_code_bytes: int = Field(MIB, ge=1024, le=4 * MIB, description="Largest program, in UTF-8.")
    max_running: int = Field(8, ge=1, le=256, description="Most executions that run at once.")
    max_sandboxes: int = Field(
        256,
        ge=1,
        le=4096,
        description="Most sandboxes that the launcher makes at once, at least "
        f"{SPARE_SANDBOXES} more than run at once; what these leave, warm ones may take.",
        json_schema_extra={
            MUST_BE: f"a whole number up to 4096 that is greater than {PREFIX}MAX_RUNNING by at least {SPARE_SANDBOXES}"
        },
    )
    max_running_per_caller: int = Field(6, ge=1, le=256, description="Most executions of one caller that run at once.")
    max_header_bytes: int = Field(
        32 * 1024, ge=8 * 1024, le=256 * 1024, description="Size limit of all headers of a request together."
    )
    header_seconds: float = Field(
        10, gt=0, le=300, description="Time that the headers of a request may take to arrive, from their first byte."
    )
    body_seconds: float = Field(
        30, gt=0, le=600, description="Time that a body may take to arrive, and may wait for its turn before that."
    )
    max_intake_bytes: int = Field(
        32 * MIB, ge=MIB, description="Most bytes of large bodies (over 64 KiB) held at once; more wait for their turn."
    )
    max_intake_bytes_per_caller: int = Field(
        16 * MIB, ge=MIB, description="Most of them of one caller; never less than the largest body."
    )
    max_connections: int = Field(
        8192,
        ge=16,
        description="Most connections to the API; at most half of the files that the daemon may open (`ulimit -n`).",
    )
    max_connections_per_address: int = Field(
        4096,
        ge=8,
        description="Most connections from one address. Behind a proxy or a published port all clients may share one.",
    )
    max_connections_per_caller: int = Field(
        256,
        ge=8,
        description="Most connections that one caller uses at once; never less than the executions it may have.",
    )
    max_requests_per_second: float = Field(
        200,
        gt=0,
        le=1_000_000,
        description="Requests of one caller in a second that are taken up at once, twice as many after a pause; "
        "what comes faster waits its turn.",
    )
    stall_seconds: float = Field(
        60, gt=0, description="Time after which a connection is closed whose client reads nothing of its reply."
    )
    max_unread_bytes: int = Field(
        64 * MIB, ge=MIB, description="Most bytes of replies that clients leave unread; then the oldest are dropped."
    )
    max_waiting: int = Field(64, ge=0, le=10_000, description="Most executions that wait; more are refused.")
    warm_floor: int = Field(1, ge=0, le=64, description="Fewest warm sandboxes per language and role.")
    warm_ceiling: int = Field(24, ge=0, le=256, description="Most warm sandboxes per language and role.")
    warm_memory_bytes: int = Field(1024 * MIB, ge=0, description="Memory that all idle warm sandboxes may take.")
    warm_max_age_seconds: float = Field(
        600, gt=0, le=24 * 3600, description="Age at which an unused warm sandbox is replaced."
    )
    max_tool_calls: int = Field(1000, ge=0, description="Most tool calls of one execution.")
    max_concurrent_tool_calls: int = Field(50, ge=1, le=1000, description="Most tool calls of one execution at once.")
    max_tool_request_bytes: int = Field(4 * MIB, ge=1024, description="Size limit of the arguments of a tool call.")
    max_tool_result_bytes: int = Field(16 * MIB, ge=1024, description="Size limit of the result of a tool call.")
    max_tool_total_bytes: int = Field(
        256 * MIB, ge=1024, description="Size limit of all arguments and results of one execution."
    )
    tool_timeout_seconds: float = Field(120, gt=0, description="Time limit of one tool call.")
    tool_stall_seconds: float = Field(
        60, gt=0, description="Time after which a program that does not take a result of more than 64 KiB loses it."
    )
    max_tool_searches: int = Field(
        200, ge=0, description="How often one execution may search for tools or ask about them."
    )
    max_held_result_bytes: int = Field(
        256 * MIB,
        ge=MIB,
        description="Results of more than 64 KiB that the daemon holds at once; the others wait.",
    )
    max_held_result_bytes_per_caller: int = Field(
        128 * MIB, ge=MIB, description="Results of more than 64 KiB that the daemon holds at once for one caller."
    )
    max_held_result_bytes_per_execution: int = Field(
        64 * MIB, ge=MIB, description="Results of more than 64 KiB that the daemon holds at once for one execution."
    )
    max_held_request_bytes: int = Field(
        64 * MIB, ge=MIB, description="Arguments of more than 64 KiB that the daemon holds at once; the others wait."
    )
    max_held_request_bytes_per_caller: int = Field(
        32 * MIB, ge=MIB, description="Arguments of more than 64 KiB that the daemon holds at once for one caller."
    )
    max_server_calls: int = Field(64, ge=1, description="Most tool calls to one server at once; the others wait.")
    max_server_calls_per_caller: int = Field(
        16, ge=1, description="Most tool calls of one caller to one server at once."
    )
    max_server_request_bytes: int = Field(
        32 * MIB, ge=1024, description="Arguments that one server is given at once; the others wait."
    )
    max_server_request_bytes_per_caller: int = Field(
        8 * MIB, ge=1024, description="Arguments that one server is given at once by one caller."
    )
    max_server_sessions: int = Field(
        8,
        ge=1,
        description='Most sessions of executions that one server with `"session": "execution"` has at once; '
        "a call that needs another waits.",
    )
    max_server_sessions_per_caller: int = Field(
        6, ge=1, description="Most sessions of one caller's executions that one such server has at once."
    )
    max_waiting_per_caller: int = Field(48, ge=0, le=10_000, description="Most executions of one caller that wait.")
    matrix_homeserver: Annotated[str, Field(pattern=r"^https?://[^\s/]+")] | None = Field(
        None, description="Address of the Matrix homeserver that chat goes through; none means no chat."
    )
    matrix_token: SecretStr | None = Field(None, description="Access token of the chat account on that homeserver.")
    matrix_default_room: Annotated[str, Field(pattern=r"^[!#]\S+$")] | None = Field(
        None, description="Room (id or alias) for calls that name none."
    )
    metrics_token: Annotated[SecretStr, Field(min_length=16)] | None = Field(
        None, description="Opens `GET /metrics` and nothing else; `make up` makes one with the profile `monitoring`."
    )
    journal_max_executions: int = Field(
        10_000, ge=1, description="Executions that the journal keeps, with their output."
    )
    journal_programs: Literal["keep", "hash"] = Field(
        "keep",
        description="Whether the journal keeps programs, up to 256 KiB each, or only their hashes.",
    )
    program_ttl_seconds: float = Field(
        30 * 24 * 3600, gt=0, description="Time that programs are kept, if the journal keeps the execution so long."
    )
    console_dir: Path = Field(
        PROJECT / ".build" / "console", description="The console's libraries, which `make image` fetches."
    )
    heartbeat_seconds: float = Field(10, gt=0, description="Longest silence in an event stream before a heartbeat.")
    check_seconds: float = Field(5, gt=0, description="Time between checks of the engine and for stray containers.")
    shutdown_grace_seconds: float = Field(
        20, ge=0, description="Time that running programs get to finish when the daemon stops."
    )
    allowed_hosts: list[str] = Field(
        [], description="Host names that clients may use besides localhost, as a JSON list."
    )
    mcp_reply_tokens: int = Field(
        6000,
        ge=500,
        le=100_000,
        description="Longest reply to an MCP client, in tokens, unless it asks for more or less with `maxTokens`.",
    )
    mcp_structured: bool = Field(
        False,
        description="Whether replies to MCP clients have structured content too, which some show instead of the text.",
    )
    mcp_progress_seconds: float = Field(3, gt=0, le=30, description="Time between progress reports to an MCP client.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least severe log line.")
    log_format: Literal["json", "console"] = Field("json", description="Format of the log lines.")

    started_in: Path | None = Field(
        None, description="Directory that `make up` was run in, for `GET /config` to tell; make sets it."
    )
    publish: str = Field(
        "127.0.0.1:9091",
        description="Where make publishes the API, as address:port.",
        json_schema_extra={MUST_BE: "an address of this machine and a port up to 65535, such as 127.0.0.1:9091"},
    )
    url: str = Field(
        default_factory=_published_url,
        description="Where the command line finds the daemon; by default where it is published.",
    )
    key: SecretStr | None = Field(
        None, description="Key for the command line; by default the first key file that it can read."
    )

    @field_validator("publish")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        host, _, port = value.rpartition(":")
        ip_address(host.strip("[]"))  # without one, the engine would publish it on every network
        if not re.fullmatch(r"[1-9][0-9]{0,4}", port) or int(port) > LARGEST_PORT:
            raise ValueError("not a port")
        return value

    # The launcher, which reads this too, knows nothing of warm sandboxes: `pool_size` keeps those within the rest.
    @field_validator("max_sandboxes")
    @classmethod
    def _leave_room_for_executions(cls, value: int, info: ValidationInfo) -> int:
        if value < info.data.get("max_running", 0) + SPARE_SANDBOXES:
            raise ValueError("too few for the executions that may run at once")
        return value

    @property
    def variables(self) -> Mapping[str, str]:
        """Return what ${NAME} may stand for in servers.json, besides the files in `server_secrets_dir`."""
        return os.environ

    @property
    def max_engine_calls(self) -> int:
        """Return how many calls of the engine are made at once: a start and a removal for each that runs, and a few."""
        return 2 * self.max_running + SPARE_ENGINE_CALLS

    @property
    def for_launcher(self) -> Mapping[str, str]:
        """Return the environment of a launcher: no more than it needs, and none of the secrets."""
        interpreter = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        return interpreter | {f"{PREFIX}{name.upper()}": str(getattr(self, name)) for name in LAUNCHER_FIELDS}

    @property
    def metrics_token_sha256(self) -> str | None:
        return hash_key(self.metrics_token.get_secret_value()) if self.metrics_token is not None else None

    @property
    def journal_file(self) -> Path:
        return self.data_dir.expanduser() / "journal.sqlite3"

    @property
    def instance_file(self) -> Path:
        return self.data_dir.expanduser() / "instance-id"

    @property
    def contents_dir(self) -> Path:
        return self.data_dir.expanduser() / "contents"

    @property
    def gateway_limits(self) -> GatewayLimits:
        return GatewayLimits(
            max_calls=self.max_tool_calls,
            max_concurrent_calls=self.max_concurrent_tool_calls,
            max_request_bytes=self.max_tool_request_bytes,
            max_total_bytes=self.max_tool_total_bytes,
            call_timeout_seconds=self.tool_timeout_seconds,
            max_held_result_bytes=max(self.max_held_result_bytes_per_execution, self.max_tool_result_bytes),
            max_searches=self.max_tool_searches,
        )

    @property
    def room_limits(self) -> RoomLimits:
        """Return what is held for tool calls; there is always room for the largest single result."""
        one = self.max_tool_result_bytes
        return RoomLimits(
            result_bytes=Shares(max(self.max_held_result_bytes, one), max(self.max_held_result_bytes_per_caller, one)),
            request_bytes=Shares(self.max_held_request_bytes, self.max_held_request_bytes_per_caller),
            calls_per_server=Shares(self.max_server_calls, self.max_server_calls_per_caller),
            request_bytes_per_server=Shares(self.max_server_request_bytes, self.max_server_request_bytes_per_caller),
            sessions_per_server=Shares(self.max_server_sessions, self.max_server_sessions_per_caller),
        )

    @property
    def file_rules(self) -> FileRules:
        one_place = FileLimits(self.max_files, self.max_file_bytes, self.max_files_bytes)
        return FileRules(
            inputs=one_place,
            outputs=one_place,
            workspace=FileLimits(self.max_workspace_files, self.max_workspace_bytes, self.max_workspace_bytes),
            max_upload_bytes=self.max_upload_bytes,
            max_uploads=self.max_uploads_per_caller,
            ttl_seconds=self.file_ttl_seconds,
            held_bytes=Shares(self.max_intake_bytes, max(self.max_intake_bytes_per_caller, self.max_body_bytes)),
        )

    @property
    def places_in_background(self) -> Shares:
        """Return how many executions may be in the background; never so many that nothing else could run."""
        return Shares(
            min(self.max_background, max(1, self.max_running - 1)),
            min(self.max_background_per_caller, max(1, self.max_running_per_caller - 1)),
        )

    @property
    def places_nested(self) -> Shares:
        return Shares(self.max_nested, self.max_nested_per_caller)

    @property
    def max_body_bytes(self) -> int:
        return self.max_code_bytes * JSON_EXPANSION + BODY_ALLOWANCE_BYTES

    @property
    def pool_size(self) -> PoolSize:
        """Return how many warm sandboxes are kept; never so many that an execution finds no place for its own."""
        nested = MAX_DEPTH * self.max_nested
        places = max(0, self.max_sandboxes - self.max_running - SPARE_SANDBOXES - nested)
        return PoolSize(
            floor=self.warm_floor,
            ceiling=max(self.warm_floor, self.warm_ceiling),
            memory_bytes=min(self.warm_memory_bytes, places * min(language.idle_bytes for language in Language)),
            max_age_seconds=self.warm_max_age_seconds,
        )

    def limits(self, timeout_seconds: float | None) -> Limits:
        return Limits(
            timeout_seconds=timeout_seconds or min(self.default_timeout_seconds, self.max_timeout_seconds),
            max_output_bytes=self.max_output_bytes,
            memory_bytes=self.memory_bytes,
            cpus=self.cpus,
            max_processes=self.max_processes,
            workspace_bytes=self.workspace_bytes,
            scratch_bytes=self.scratch_bytes,
            flood_bytes=max(self.flood_bytes, self.max_output_bytes),
        )

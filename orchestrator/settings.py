"""The only reader of the environment. Every field is CODE_EXECUTOR_<NAME>; docs/configuration.md is made from here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from orchestrator.domain.execution import GatewayLimits, Limits
from orchestrator.domain.sandbox import PoolSize

PREFIX = "CODE_EXECUTOR_"
MIB = 1024 * 1024
PROJECT = Path(__file__).resolve().parent.parent
ENV_FILE = PROJECT / ".env"
# These are for binding; a client on this machine reaches them elsewhere.
_LOOPBACK_INSTEAD = dict.fromkeys(("", "0.0.0.0", "[::]"), "127.0.0.1")  # noqa: S104


def _published_url(validated: Mapping[str, Any]) -> str:
    host, _, port = validated["publish"].rpartition(":")
    return f"http://{_LOOPBACK_INSTEAD.get(host, host)}:{port}"


def _hashes_beside_the_keys(validated: Mapping[str, Any]) -> Path:
    return Path(validated["secrets_dir"]) / "hashes"


class Settings(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="ignore", populate_by_name=True, env_ignore_empty=True
    )

    host: str = Field("127.0.0.1", description="Address that the API listens on.")
    port: Annotated[int, Field(ge=0, le=65535)] = Field(9091, description="Port of the API.")
    data_dir: Path = Field(Path("~/.local/state/mcp-code-executor"), description="Where the journal is kept.")
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
    relist_seconds: float = Field(60, gt=0, description="Time between listings of each upstream's tools.")
    client_library: Path = Field(
        PROJECT / "runner-image" / "client-library",
        description="The library that the generated wrappers use in a sandbox.",
    )
    docker_host: str = Field(
        "unix:///var/run/docker.sock",
        description="The engine's socket.",
        validation_alias=AliasChoices(f"{PREFIX}DOCKER_HOST", "DOCKER_HOST"),
    )
    runner_image: str = Field("mcp-code-executor/runner:latest", description="Image of the sandboxes.")
    network: str = Field(
        "mcp-net", description="Internal network of the sandboxes; the daemon creates it if it is missing."
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
    cpus: float = Field(1.0, gt=0, le=64, description="CPUs of a sandbox.")
    max_processes: int = Field(256, ge=16, le=4096, description="Processes and threads in a sandbox.")
    workspace_bytes: int = Field(500 * MIB, ge=MIB, description="Size of /workspace, in memory.")
    scratch_bytes: int = Field(100 * MIB, ge=MIB, description="Size of /tmp and of /tmp/executions, in memory.")
    max_output_bytes: int = Field(
        100 * 1024, ge=1024, le=10 * MIB, description="Output limit, for stdout and for stderr."
    )
    max_code_bytes: int = Field(MIB, ge=1024, le=4 * MIB, description="Largest program, in UTF-8.")
    max_running: int = Field(8, ge=1, le=256, description="Most executions that run at once.")
    max_running_per_caller: int = Field(6, ge=1, le=256, description="Most executions of one caller that run at once.")
    max_waiting: int = Field(64, ge=0, le=10_000, description="Most executions that wait; more are refused.")
    warm_floor: int = Field(1, ge=0, le=64, description="Fewest warm sandboxes per language and role.")
    warm_ceiling: int = Field(24, ge=0, le=256, description="Most warm sandboxes per language and role.")
    warm_memory_bytes: int = Field(1024 * MIB, ge=0, description="Memory that all idle warm sandboxes may take.")
    warm_max_age_seconds: float = Field(600, gt=0, description="Age at which an unused warm sandbox is replaced.")
    max_tool_calls: int = Field(1000, ge=0, description="Most tool calls of one execution.")
    max_concurrent_tool_calls: int = Field(50, ge=1, le=1000, description="Most tool calls of one execution at once.")
    max_tool_request_bytes: int = Field(4 * MIB, ge=1024, description="Size limit of the arguments of a tool call.")
    max_tool_result_bytes: int = Field(16 * MIB, ge=1024, description="Size limit of the result of a tool call.")
    max_tool_total_bytes: int = Field(
        256 * MIB, ge=1024, description="Size limit of all arguments and results of one execution."
    )
    tool_timeout_seconds: float = Field(120, gt=0, description="Time limit of one tool call.")
    max_waiting_per_caller: int = Field(48, ge=0, le=10_000, description="Most executions of one caller that wait.")
    matrix_homeserver: Annotated[str, Field(pattern=r"^https?://[^\s/]+")] | None = Field(
        None, description="Address of the Matrix homeserver that chat goes through; none means no chat."
    )
    matrix_token: SecretStr | None = Field(None, description="Access token of the chat account on that homeserver.")
    matrix_default_room: Annotated[str, Field(pattern=r"^[!#]\S+$")] | None = Field(
        None, description="Room (id or alias) for calls that name none."
    )
    journal_max_executions: int = Field(
        10_000, ge=1, description="Executions that the journal keeps, with their output."
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
        20_000, ge=4000, le=1_000_000, description="Longest reply to an MCP client; Claude Code cuts at 25,000."
    )
    mcp_progress_seconds: float = Field(3, gt=0, le=30, description="Time between progress reports to an MCP client.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least severe log line.")
    log_format: Literal["json", "console"] = Field("json", description="Format of the log lines.")

    publish: str = Field("127.0.0.1:9091", description="Where make publishes the API, as address:port.")
    url: str = Field(
        default_factory=_published_url,
        description="Where the command line finds the daemon; by default where it is published.",
    )
    key: SecretStr | None = Field(
        None, description="Key for the command line; by default the first key file that it can read."
    )

    @property
    def variables(self) -> Mapping[str, str]:
        """Return what ${NAME} may stand for in servers.json."""
        return os.environ

    @property
    def journal_file(self) -> Path:
        return self.data_dir.expanduser() / "journal.sqlite3"

    @property
    def instance_file(self) -> Path:
        return self.data_dir.expanduser() / "instance-id"

    @property
    def gateway_limits(self) -> GatewayLimits:
        return GatewayLimits(
            max_calls=self.max_tool_calls,
            max_concurrent_calls=self.max_concurrent_tool_calls,
            max_request_bytes=self.max_tool_request_bytes,
            max_total_bytes=self.max_tool_total_bytes,
            call_timeout_seconds=self.tool_timeout_seconds,
        )

    @property
    def pool_size(self) -> PoolSize:
        return PoolSize(
            floor=self.warm_floor,
            ceiling=max(self.warm_floor, self.warm_ceiling),
            memory_bytes=self.warm_memory_bytes,
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
        )

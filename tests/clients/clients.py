"""The clients: how each is started, and what it makes of a reply."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Any

from tests.support.installation import PROJECT

ENVIRONMENTS = PROJECT / ".build" / "clients"
DRIVERS = Path(__file__).parent / "drivers"
NODE = PROJECT / ".build" / "node" / "bin"
SERVER = "code-executor"
PROMPT = "Run the program."


@dataclass(frozen=True)
class Place:
    """Where a client runs and whom it talks to."""

    home: Path
    mcp_url: str
    key: str
    model_url: str
    arguments: dict[str, Any]
    proxy_url: str = "http://127.0.0.1:9"  # nobody listens there: whatever tries to leave this machine fails

    @property
    def environment(self) -> dict[str, str]:
        proxies = {"http_proxy": self.proxy_url, "https_proxy": self.proxy_url, "no_proxy": "127.0.0.1,localhost"}
        return {
            **proxies,
            **{name.upper(): value for name, value in proxies.items()},
            "PATH": f"{NODE}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "NO_COLOR": "1",
            "MCP_URL": self.mcp_url,
            "CODE_EXECUTOR_KEY": self.key,
            "MODEL_URL": self.model_url,
            "ARGUMENTS": json.dumps(self.arguments),
        }


@dataclass(frozen=True)
class Start:
    """A command, with what it needs besides the environment of its place."""

    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)


class Pictures(Enum):
    """What becomes of a picture on its way to the model."""

    SHOWN = auto()
    LOST = auto()
    SPELLED_OUT = auto()  # as the text of its base64


@dataclass(frozen=True)
class Client:
    """One client in one of its ways to ask a model."""

    name: str
    environment: str
    start: Callable[[Place], Start]
    framing_tokens: int = 0  # measured: what the client adds to a reply of ours
    pictures: Pictures = Pictures.SHOWN
    marks_errors: bool = False
    has_model: bool = True

    def __str__(self) -> str:
        return self.name


def python(environment: str, driver: str, dialect: str = "") -> Callable[[Place], Start]:
    command = [str(ENVIRONMENTS / environment / "bin" / "python"), str(DRIVERS / driver)]
    return lambda place: Start(command, {"DIALECT": dialect})


def command(environment: str, name: str) -> str:
    return str(ENVIRONMENTS / environment / "node_modules" / ".bin" / name)


def vercel(dialect: str) -> Callable[[Place], Start]:
    environment = {"DIALECT": dialect, "ENVIRONMENT": str(ENVIRONMENTS / "vercel-ai")}
    return lambda place: Start([str(NODE / "node"), str(DRIVERS / "vercel_ai_agent.mjs")], environment)


def inspector(place: Place) -> Start:
    reach = ["--cli", place.mcp_url, "--transport", "http", "--header", f"Authorization: Bearer {place.key}"]
    call = ["--method", "tools/call", "--tool-name", "execute_code", "--tool-args-json", json.dumps(place.arguments)]
    return Start([command("inspector", "mcp-inspector"), *reach, *call, "--format", "json", "--quiet"])


def claude_code(place: Place) -> Start:
    entry = {"type": "http", "url": place.mcp_url, "headers": {"Authorization": f"Bearer {place.key}"}}
    configuration = json.dumps({"mcpServers": {SERVER: entry}})
    return Start(
        [
            command("claude-code", "claude"),
            *("--print", PROMPT, "--strict-mcp-config", "--mcp-config", configuration),
            *("--allowedTools", f"mcp__{SERVER}__execute_code", "--model", "sonnet"),
        ],
        {
            "ANTHROPIC_BASE_URL": place.model_url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
        },
    )


def codex(place: Place) -> Start:
    home = place.home / ".codex"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(
        f"""
        model = "gpt-5"
        model_provider = "scripted"
        check_for_update_on_startup = false
        approval_policy = "never"
        sandbox_mode = "danger-full-access"
        [analytics]
        enabled = false
        [features]
        apps = false
        plugins = false
        [model_providers.scripted]
        name = "scripted"
        base_url = "{place.model_url}/v1"
        wire_api = "responses"
        request_max_retries = 0
        stream_max_retries = 0
        [mcp_servers.{SERVER}]
        url = "{place.mcp_url}"
        bearer_token_env_var = "CODE_EXECUTOR_KEY"
        """
    )
    return Start([command("codex", "codex"), "exec", "--skip-git-repo-check", PROMPT], {"CODEX_HOME": str(home)})


def gemini_cli(place: Place) -> Start:
    home = place.home / ".gemini"
    home.mkdir(exist_ok=True)
    entry = {"httpUrl": place.mcp_url, "headers": {"Authorization": f"Bearer {place.key}"}, "trust": True}
    settings = {
        "mcpServers": {SERVER: entry},
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    }
    (home / "settings.json").write_text(json.dumps(settings))
    return Start(
        [command("gemini-cli", "gemini"), "--skip-trust", "--yolo", "--model", "gemini-2.5-pro", "--prompt", PROMPT],
        {"GOOGLE_GEMINI_BASE_URL": place.model_url, "GEMINI_API_KEY": "none"},
    )


CLIENTS = (
    Client("fastmcp", "fastmcp", python("fastmcp", "fastmcp_client.py"), has_model=False, marks_errors=True),
    Client("inspector", "inspector", inspector, has_model=False, marks_errors=True),
    Client("openai-agents", "openai-agents", python("openai-agents", "openai_agents_agent.py", "responses")),
    Client(
        "openai-agents-chat",
        "openai-agents",
        python("openai-agents", "openai_agents_agent.py", "chat"),
        pictures=Pictures.LOST,
    ),
    Client("pydantic-ai", "pydantic-ai", python("pydantic-ai", "pydantic_ai_agent.py", "responses")),
    Client("pydantic-ai-chat", "pydantic-ai", python("pydantic-ai", "pydantic_ai_agent.py", "chat")),
    Client("langchain", "langchain", python("langchain", "langchain_agent.py", "responses")),
    Client("langchain-chat", "langchain", python("langchain", "langchain_agent.py", "chat")),
    Client(
        "smolagents",
        "smolagents",
        python("smolagents", "smolagents_agent.py"),
        framing_tokens=2,
        pictures=Pictures.LOST,
    ),
    Client("vercel-ai", "vercel-ai", vercel("responses")),
    Client("vercel-ai-chat", "vercel-ai", vercel("chat"), framing_tokens=13, pictures=Pictures.SPELLED_OUT),
    Client("claude-code", "claude-code", claude_code, marks_errors=True),
    Client("codex", "codex", codex, framing_tokens=14),
    Client("gemini-cli", "gemini-cli", gemini_cli, framing_tokens=12, marks_errors=True),
)

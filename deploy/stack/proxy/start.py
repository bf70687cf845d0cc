"""Becomes PyPI's mcp-proxy for the servers of /config/config.json.

That file holds no secret: ${NAME} is filled in from the container's environment, and each server gets the variables
that its own entry names, nothing else of the environment.
"""

import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CONFIG = Path("/config/config.json")
FILLED_IN = Path("/tmp/servers.json")  # noqa: S108  # a tmpfs of this container alone
PORT = 9090
REFERENCE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
# The proxy never starts a server again. Without it the container ends, and the engine starts everything afresh.
END_TOGETHER = '"$@"; kill -KILL "$PPID"'


class Missing(Exception):
    pass


def fill_in(text: str, variables: Mapping[str, str]) -> str:
    def value(reference: re.Match[str]) -> str:
        name, default = reference.groups()
        found = variables.get(name) or default
        if found is None:
            raise Missing(f"{name} is not set in the environment of this container.")
        return found

    return REFERENCE.sub(value, text)


def tied_to_the_proxy(entry: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, Any]:
    command = [entry["command"], *entry.get("args", ())]
    filled = [fill_in(word, variables) for word in command]
    environment = {name: fill_in(value, variables) for name, value in entry.get("env", {}).items()}
    return {"command": "/bin/sh", "args": ["-c", END_TOGETHER, "sh", *filled], "env": paths(variables) | environment}


def paths(variables: Mapping[str, str]) -> dict[str, str]:
    names = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")
    return {name: variables[name] for name in names if name in variables}


def write_privately(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


def main() -> None:
    servers = json.loads(CONFIG.read_text())["mcpServers"]
    try:
        tied = {name: tied_to_the_proxy(entry, os.environ) for name, entry in servers.items()}
    except Missing as missing:
        sys.exit(str(missing))
    write_privately(FILLED_IN, json.dumps({"mcpServers": tied}))
    os.environ["PYTHONPATH"] = "/app/proxy"
    arguments = ["--named-server-config", str(FILLED_IN), "--stateless", "--host", "0.0.0.0", "--port", str(PORT)]  # noqa: S104
    os.execv("/usr/bin/python3", ["python3", "-P", "-m", "mcp_proxy", *arguments])  # noqa: S606  # no shell is wanted


if __name__ == "__main__":
    main()

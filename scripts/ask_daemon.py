"""Asks the daemon on this machine, past any proxy: ask_daemon.py ready URL, or ask_daemon.py health URL.

`ready` says it by the exit status alone; `health` prints what the daemon says of itself.
"""

import argparse
import json
import sys
import urllib.error
import urllib.request

READY_SECONDS = 3
HEALTH_SECONDS = 5


def is_ready(url: str) -> bool:
    try:
        return get(f"{url}/readyz", READY_SECONDS)[0] == 200
    except (OSError, ValueError):
        return False


def print_health(url: str) -> None:
    try:
        _, body = get(f"{url}/health", HEALTH_SECONDS)
    except OSError as error:
        sys.exit(f"There is no answer at {url}: {error}")
    for name, value in json.loads(body).items():
        sys.stdout.write(f"  {name}: {value if isinstance(value, str) else json.dumps(value)}\n")


def get(url: str, seconds: float) -> tuple[int, bytes]:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(url, timeout=seconds) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("question", choices=["ready", "health"])
    parser.add_argument("url")
    chosen = parser.parse_args()
    if chosen.question == "ready":
        return 0 if is_ready(chosen.url) else 1
    print_health(chosen.url)
    return 0


if __name__ == "__main__":
    sys.exit(main())

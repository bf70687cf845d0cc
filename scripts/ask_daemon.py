"""Asks the daemon on this machine, past any proxy: ask_daemon.py ready URL, or ask_daemon.py health URL.

`ready` says it by the exit status: 0 ready, 1 not yet, 3 never as things are; and prints why not. `health` prints what
the daemon says of itself.
"""

import argparse
import http.client
import json
import sys
import urllib.error
import urllib.request

READY_SECONDS = 3
HEALTH_SECONDS = 5
NOT_YET = 1
NEVER = 3
# What no waiting mends; the others may go away while the engine and the daemon start.
LASTING_PROBLEMS = {"runtime_missing", "runner_image_missing"}
# The last is a port that no machine has.
NO_ANSWER = (OSError, ValueError, http.client.HTTPException, OverflowError)


def readiness(url: str) -> int:
    try:
        status, body = get(f"{url}/readyz", READY_SECONDS)
        if status == 200:
            return 0
        problem = json.loads(body)
        sys.stdout.write(f"{problem['detail']} {problem['hint']}\n")
        return NEVER if problem["code"] in LASTING_PROBLEMS else NOT_YET
    except (*NO_ANSWER, KeyError, TypeError):
        return NOT_YET


def print_health(url: str) -> None:
    try:
        _, body = get(f"{url}/health", HEALTH_SECONDS)
    except NO_ANSWER as error:
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
        return readiness(chosen.url)
    print_health(chosen.url)
    return 0


if __name__ == "__main__":
    sys.exit(main())

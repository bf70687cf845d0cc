"""Lets the check of programs look at a skill's code where a program would stand, without running it."""

import json
import os
import sys

REQUEST = os.environ.get("SKILL_REQUEST", "/workspace/in/request.json")
WORKSPACE = os.environ.get("SKILL_WORKSPACE", "/workspace")
CHECKER = os.environ.get("CODE_EXECUTOR_CHECKER", "/opt/runner/checker.py")
MAIN_FILES = {"typescript": "main.ts", "python": "main.py"}


def main() -> None:
    with open(REQUEST, encoding="utf-8") as file:
        request = json.load(file)
    with open(f"{WORKSPACE}/{MAIN_FILES[request['language']]}", "w", encoding="utf-8", newline="") as file:
        file.write(request["code"])
    # It prints the mistakes itself.
    command = [sys.executable, "-I", "-S", "-B", CHECKER, request["language"], WORKSPACE]
    os.execv(command[0], command)  # noqa: S606


if __name__ == "__main__":
    main()

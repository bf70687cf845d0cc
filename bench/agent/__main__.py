"""How well agents are told what is wrong before anything happens: python -m bench.agent

Each program runs once on a daemon of its own, beside stand-ins for the default servers. Of the wrong ones, those count
that were rejected before any tool was called; of the right ones, none may be.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from bench.agent.corpus import HERE, Seen, Written, programs
from bench.check import cost_of_the_check
from bench.client import Client
from bench.installation import installation
from bench.plan import QUICK
from bench.tables import check_table

POOL = 1
ROUNDS = 15
SERVERS: Mapping[str, Mapping[str, object]] = {
    "filesystem": {},
    "memory": {},
    "postgres": {"contents": "list"},
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.agent", description=__doc__)
    parser.add_argument("--only", default="", help="programs whose names contain this")
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help="rounds in which the check's cost is measured; 0: not"
    )
    options = parser.parse_args()
    chosen = [program for program in programs() if options.only in program.name]
    with installation(pool=POOL, servers=stand_ins()) as daemon:
        client = daemon.client()
        seen = [_run(client, program) for program in chosen]
        client.close()
    _tell(seen)
    if options.rounds:
        print(check_table(cost_of_the_check(replace(QUICK, rounds=options.rounds))))
    return 0 if all(_is_well(each) for each in seen) else 1


def stand_ins() -> dict[str, dict[str, object]]:
    """Return the entries of servers that list what the default ones do."""
    program = str(Path(HERE) / "stand_in.py")
    return {name: {"command": sys.executable, "args": [program, name], **more} for name, more in SERVERS.items()}


def _run(client: Client, program: Written) -> Seen:
    result = client.result(program.code, program.language)
    return Seen(program, result["outcome"], len(result["toolCalls"]), tuple(result["mistakes"]), result["stderr"])


def _is_well(seen: Seen) -> bool:
    return seen.outcome == "completed" if seen.program.is_right else seen.is_rejected_in_time and not seen.untold


def _tell(seen: list[Seen]) -> None:
    right = [each for each in seen if each.program.is_right]
    wrong = [each for each in seen if not each.program.is_right]
    for each in seen:
        if not _is_well(each):
            why = f"untold: {each.untold}" if each.untold else each.stderr[-300:]
            print(f"{each.program.name}: {each.outcome}, {each.tool_calls} calls, {why}")
            for mistake in each.mistakes:
                print(f"  line {mistake['line']}: {mistake['message']}")
    rejected = [each for each in wrong if each.is_rejected_in_time]
    print(f"{len(right)} right programs: {sum(each.is_falsely_rejected for each in right)} rejected")
    share = f", {len(rejected) / len(wrong):.0%}" if wrong else ""
    print(f"{len(wrong)} wrong programs: {len(rejected)} rejected before a side effect{share}")
    print(f"told as expected: {sum(not each.untold for each in rejected)} of {len(rejected)}")


if __name__ == "__main__":
    sys.exit(main())

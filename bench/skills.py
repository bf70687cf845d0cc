"""What skills cost whoever uses none: python -m bench.skills [--rounds 100]

search    the recall of the catalog's search over real tools, alone and with 200 skills among them
wrappers  writing everything that programs import, of 60 tools, alone and with 200 skills
hello     a warm program that uses no skill, on a daemon without skills of its own and on one with 200, in turns
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from time import perf_counter, time

from bench.client import Client
from bench.installation import Daemon, installation
from bench.programs import HELLO_PYTHON, HELLO_TYPESCRIPT, Program
from bench.search import average, data_is_there, read_tasks, read_tools, recall_of
from bench.stats import ratio, summary
from bench.testbed.installation import Installation
from orchestrator.catalog.search import SearchIndex
from orchestrator.domain.access import SKILLS
from orchestrator.domain.execution import Language
from orchestrator.domain.skills import Proof, SkillContent, SkillState, SkillVersion
from orchestrator.domain.tools import SkillTraits, Tool
from orchestrator.journals.skills import SqliteSkills
from orchestrator.journals.sqlite import SqliteJournal
from orchestrator.wrappers.generator import WrapperGenerator

VERBS = ("count", "export", "compare", "summarize", "find", "check", "sync", "rank", "chart", "archive")
NOUNS = (
    *("orders", "invoices", "customers", "tickets", "branches", "commits", "pages", "tables", "files", "messages"),
    *("alerts", "releases", "shipments", "budgets", "accounts", "meetings", "notes", "images", "logs", "backups"),
)
WARM = 1
UNTIMED_ROUNDS = 5
TOOLS = 60
CODE = {
    Language.PYTHON: "def run(input):\n    return {{'done': '{}'}}\n",
    Language.TYPESCRIPT: "export default (input: {{ since?: string }}) => ({{ done: '{}' }});\n",
}
INPUT = {
    "type": "object",
    "properties": {"since": {"type": "string", "description": "From this day on."}, "limit": {"type": "integer"}},
    "additionalProperties": False,
}
OUTPUT = {"type": "object", "properties": {"done": {"type": "string"}}, "required": ["done"]}


def contents() -> list[SkillContent]:
    """Return 200 skills, half of them in each language."""
    made = []
    for number, (verb, noun) in enumerate(product(VERBS, NOUNS)):
        language = list(Language)[number % 2]
        code = CODE[language].format(f"{verb} {noun}")
        description = f"{verb.capitalize()} the {noun} since a day, at most so many, and tell how many there were."
        made.append(SkillContent(f"{verb}_{noun}", description, language, code, INPUT, OUTPUT, (), ({},)))
    return made


def as_tool(content: SkillContent) -> Tool:
    traits = SkillTraits(content.version, content.language, ())
    return Tool(SKILLS, content.name, content.description, content.input, content.output, skill=traits)


def measure_search(skills: Sequence[Tool]) -> None:
    if not data_is_there():
        print("search: the real tools and tasks are not there")
        return
    tools, descriptions = read_tools()
    tasks = read_tasks()
    print(f"search, {len(tasks)} tasks                steps@5  whole@10   p50 ms")
    for title, there in ((f"{len(tools)} tools", tools), (f"and {len(skills)} skills", [*tools, *skills])):
        index = SearchIndex(there, server_descriptions=descriptions)
        recall = average([recall_of(index, task) for task in tasks])
        taken = [_ms(partial(index.search, [task.question])) for task in tasks]
        print(f"  {title:<28}{recall.steps_at_5:9.3f}{recall.whole_at_10:10.3f}{statistics.median(taken):9.3f}")


def measure_wrappers(skills: Sequence[Tool]) -> None:
    if not data_is_there():
        print("wrappers: the real tools are not there")
        return
    tools = read_tools()[0][:TOOLS]
    print("wrappers of both languages           first ms   again ms")
    for title, there in ((f"{TOOLS} tools", tools), (f"and {len(skills)} skills", [*tools, *skills])):
        generator = WrapperGenerator()
        first, again = (_ms(partial(generator.generate, there)) for _ in range(2))
        print(f"  {title:<32}{first:11.0f}{again:11.1f}")


def measure_hello(rounds: int) -> None:
    print(f"hello, warm, {rounds} rounds          p50 ms      p95 ms")
    with installation(pool=WARM) as without, installation(pool=WARM, prepare=_keep_skills) as with_skills:
        daemons = {"without skills": without, "with 200 skills": with_skills}
        clients = {title: daemon.client() for title, daemon in daemons.items()}
        if len(json.loads(clients["with 200 skills"].get("/tools"))["tools"][SKILLS]) < len(contents()):
            raise RuntimeError("The daemon does not offer the skills.")
        for program in (HELLO_PYTHON, HELLO_TYPESCRIPT):
            seconds: dict[str, list[float]] = {title: [] for title in daemons}
            for number in range(UNTIMED_ROUNDS + rounds):
                for title in random.sample(list(daemons), len(daemons)):
                    taken = _hello(daemons[title], clients[title], program)
                    if number >= UNTIMED_ROUNDS:
                        seconds[title].append(taken)
            for title, each in seconds.items():
                told = summary(each)
                print(f"  {program.language}, {title:<24}{told.p50_ms:8.1f}{told.p95_ms:12.1f}")
            found = ratio(seconds["with 200 skills"], seconds["without skills"])
            print(f"  {program.language}, ratio {found.median:.3f} ({found.low:.3f} to {found.high:.3f})")


def _hello(daemon: Daemon, client: Client, program: Program) -> float:
    reply = client.execute(program.code, program.language)
    daemon.settle()
    if not program.accepts(reply.output) or not reply.warm:
        raise RuntimeError(f"hello printed {reply.output[:80]!r}, warm: {reply.warm}")
    return reply.seconds


def _keep_skills(place: Installation) -> None:
    """Put approved skills into a journal whose daemon has not started yet."""

    async def keep() -> None:
        place.settings.journal_file.parent.mkdir(parents=True, exist_ok=True)
        journal = SqliteJournal(place.settings.journal_file, max_executions=100)
        store = SqliteSkills(journal)
        for content in contents():
            now = time()
            proof = Proof(now, {})  # of no tools, for they call none; without a proof no skill is offered
            saved = SkillVersion(content, "author", "admin", SkillState.APPROVED, now, proof=proof, approved_at=now)
            await store.save(saved, None)
        await journal.close()

    asyncio.run(keep())


def _ms(work: Callable[[], object]) -> float:
    began = perf_counter()
    work()
    return 1000 * (perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.skills", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100, help="rounds of each hello")
    options = parser.parse_args()
    skills = [as_tool(content) for content in contents()]
    measure_search(skills)
    measure_wrappers(skills)
    measure_hello(options.rounds)


if __name__ == "__main__":
    main()

"""The use case: save a skill, from what somebody sent or from an execution, and prove it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import structlog

from orchestrator.domain.access import SKILLS, Caller, Role
from orchestrator.domain.errors import (
    InvalidRequest,
    QueueFull,
    SkillRefused,
    ToolDenied,
    ToolNotFound,
    TooManySkills,
)
from orchestrator.domain.execution import Check, Language, Mistake, Outcome, Shares
from orchestrator.domain.json_schema import MAX_STEPS, mismatches, schema_of
from orchestrator.domain.json_schema import Budget as Steps
from orchestrator.domain.ledger import CallOutcome
from orchestrator.domain.names import Names
from orchestrator.domain.skill_hygiene import remarks_on
from orchestrator.domain.skills import (
    BUILT_IN,
    MAX_CODE_BYTES,
    MAX_DESCRIPTION_CHARACTERS,
    MAX_EXAMPLE_BYTES,
    MAX_EXAMPLES,
    MAX_LEVELS,
    MAX_SCHEMA_BYTES,
    MAX_TOOLS,
    OBSERVED,
    Proof,
    Remark,
    SkillContent,
    SkillState,
    SkillVersion,
    canonical_json,
    is_too_deep,
    require_skill_name,
)
from orchestrator.domain.tools import JsonSchema, Tool
from orchestrator.service.budget import Budget
from orchestrator.service.records import Records
from orchestrator.service.scopes import Recording
from orchestrator.service.skill_proofs import Candidate, ProofFailed, Proven, Run, SkillProofs
from orchestrator.service.skill_shelf import SkillShelf

log = structlog.get_logger()

Progress = Callable[[str], None]
MAX_PATH_CHARACTERS = 513  # of a server and a tool
LAST = "last"  # instead of an id: what the caller ran last
MOST_UNDER_WAY = 8  # of one caller
RETRY_AFTER_SECONDS = 10
LOOKALIKES = str.maketrans({"1": "l", "i": "l", "0": "o", "5": "s"})
PRINTS = Remark("prints", "`run` prints and returns nothing, so whoever calls it gets nothing: return the value.")
PROVED_AT_ONCE = Shares(total=4, per_caller=1)  # each holds its recording and what its runs returned


@dataclass(frozen=True, slots=True)
class SkillDraft:
    """What somebody wants to keep. What is None is found out."""

    name: str
    description: str
    language: Language | None = None
    code: str | None = None
    from_execution: str | None = None
    input: JsonSchema | None = None
    output: JsonSchema | None = None
    tools: tuple[str, ...] | None = None
    examples: tuple[Mapping[str, Any], ...] | None = None
    check: Check = Check.STRICT


class Toolbox(Protocol):
    def callable_tool(self, role: Role, server: str, name: str, own: Sequence[Tool] = ()) -> Tool: ...


class VisibleTools(Protocol):
    def visible(self, role: Role) -> Sequence[Tool]: ...


@dataclass(frozen=True, slots=True)
class _Source:
    language: Language
    code: str
    called: tuple[str, ...] | None  # the tools that it called when it ran, if it did


@dataclass(frozen=True, slots=True)
class _Found:
    content: SkillContent
    declared: Sequence[Tool]
    undeclared: Sequence[str]  # what its code imports besides
    imported: Sequence[str] | None  # None if it cannot be told
    annotated: JsonSchema  # what its code says that it returns, which may be little


class SkillSaving:
    """Saves what callers send as proven skills, or as drafts if their proof fails."""

    def __init__(
        self,
        shelf: SkillShelf,
        proofs: SkillProofs,
        records: Records,
        toolbox: Toolbox,
        catalog: VisibleTools,
        max_skills_per_author: int,
    ) -> None:
        self._shelf = shelf
        self._proofs = proofs
        self._records = records
        self._toolbox = toolbox
        self._catalog = catalog
        self._max_skills = max_skills_per_author
        self._proving = Budget(PROVED_AT_ONCE.total, PROVED_AT_ONCE.per_caller)
        self._under_way: Counter[tuple[str, str]] = Counter()  # authors and names

    async def save(self, caller: Caller, draft: SkillDraft, progress: Progress = lambda message: None) -> SkillVersion:
        """Keep a skill: proven, or as a draft with what its proof found. What must not be kept is refused."""
        source = await self._source(caller, draft)
        _require_small(draft, source)
        await _require_clean(_given(draft, source))
        with self._place(caller, draft.name):
            async with self._proving.reserve(caller.key_name, 1):
                found = await self._found_out(caller, draft, source, progress)
                made, recording = await self._proven(caller, draft, found, progress)
                saved = self._same_as_approved(caller, made) or await self._shelf.add(made, recording)
                if told := self._what_is_used(caller, made, saved):
                    saved = replace(saved, remarks=(*saved.remarks, told))
        log.info("skill.saved", skill=saved.name, version=saved.version, author=saved.author, state=saved.state)
        return saved

    def _same_as_approved(self, caller: Caller, made: SkillVersion) -> SkillVersion | None:
        """Return what somebody else saved with the same content, if it is approved: one is enough for everybody."""
        approved = self._shelf.approved(made.name)
        if approved is None or approved.version != made.version or approved.author in (BUILT_IN, caller.key_name):
            return None
        is_usable = approved.effective_state is SkillState.APPROVED and self._shelf.shows(caller, approved)
        return replace(approved, remarks=made.remarks) if is_usable else None

    def _what_is_used(self, caller: Caller, made: SkillVersion, saved: SkillVersion) -> Remark | None:
        """Tell the author which version is used by whom, where that is not just the one that was saved."""
        if made.proof is None and saved.proof is not None:
            return Remark("kept", f"It stays {saved.effective_state}: the same content was proven before.")
        in_use = self._shelf.usable(caller, saved.name)
        if in_use is not None and in_use.version != saved.version:
            way = f" `{_retiring(in_use)}` gives way to this one." if saved.proof is not None else ""
            return Remark("replaces", f"{_named(in_use)} stays in use for your key.{way}")
        approved = self._shelf.approved(saved.name)
        is_other = approved is not None and approved.version != saved.version and self._shelf.shows(caller, approved)
        if approved is None or not is_other or in_use is None or approved.drift:
            return None
        return Remark(
            "replaces",
            f"Programs of your key get it now; others get {_named(approved, begins=False)} until this one is approved. "
            f"`{_retiring(saved)}` takes it back.",
        )

    async def _found_out(self, caller: Caller, draft: SkillDraft, source: _Source, progress: Progress) -> _Found:
        """Find out what was not given, as far as the code and the examples tell it, and what is not declared."""
        declared = self._declared(caller, draft.tools)
        progress("examining the code")
        parameters = _parameters(draft)
        found = await self._examined(caller, draft, source, parameters)
        if [SKILLS, draft.name] in found["imports"]:
            raise InvalidRequest(f"Skills must not call themselves: {draft.name} → {draft.name}.")
        imported = self._known_imports(caller, found["imports"])
        if draft.tools is None:
            declared = self._declared(caller, self._inferred_tools(caller, source, imported, found["imports"]))
        paths = {tool.path for tool in declared}
        undeclared = [path for path in imported or () if path not in paths]
        content = SkillContent(
            name=draft.name,
            description=draft.description,
            language=source.language,
            code=found["code"],
            input=draft.input or _telling(found["input"]),
            output=draft.output or _telling(found["output"]),
            tools=tuple(sorted(tool.path for tool in declared)),
            examples=draft.examples or _examples(found, draft.input or _telling(found["input"]) or None),
        )
        self._shelf.reach.require_end(content, self._shelf.own_of(caller.key_name))
        if draft.input is None:
            content = replace(content, input=_closed(content.input))
        if not content.input:
            schema = schema_of(content.examples)
            if content.language is Language.TYPESCRIPT:
                schema = _with_numbers(schema)
            content = replace(content, input={**schema, "additionalProperties": False})
        await asyncio.to_thread(_require_writable, content)
        await asyncio.to_thread(_require_fitting_examples, content)
        await _require_clean(content)  # of what was found out nobody has seen anything yet
        annotated = {} if draft.output else found["output"] or {}
        return _Found(content, declared, undeclared, imported, annotated)

    async def _examined(
        self, caller: Caller, draft: SkillDraft, source: _Source, parameters: Sequence[str] | None
    ) -> dict[str, Any]:
        try:
            return await self._proofs.examine(caller, draft.name, source.language, source.code, parameters)
        except InvalidRequest as error:
            if draft.language is not None or draft.code is None:
                raise
            hint = "The code is taken for TypeScript, because `language` is not given."
            raise InvalidRequest(f"{error.message} {hint}") from None

    async def _source(self, caller: Caller, draft: SkillDraft) -> _Source:
        require_skill_name(draft.name)
        if (draft.code is None) == (draft.from_execution is None):
            raise InvalidRequest("Give either `code` or `fromExecution`.")
        if draft.code is not None:
            return _Source(draft.language or Language.TYPESCRIPT, draft.code, None)
        if draft.from_execution == LAST:
            record = await self._records.newest_own(caller, of_skills=False)
            if record is None:
                raise InvalidRequest("Your key has run no program lately: give `code`, or the id of an execution.")
        else:
            record = await self._records.visible(caller, draft.from_execution or "")
        code = await self._records.program(record)
        if record.language is None or record.skill is not None:
            raise InvalidRequest(f"Execution {record.id} did not run a program that could be kept.")
        if draft.language not in (None, record.language):
            raise InvalidRequest(f"`language` must be {record.language}, which execution {record.id} was in.")
        if record.outcome is not Outcome.COMPLETED:
            raise InvalidRequest(f"Execution {record.id} did not complete: keep a program that worked.")
        answered = (call for call in record.tool_calls if call.outcome in (CallOutcome.DONE, CallOutcome.TOOL_ERROR))
        called = tuple(dict.fromkeys(f"{call.server}/{call.tool}" for call in answered))
        return _Source(record.language, code, called)

    @contextmanager
    def _place(self, caller: Caller, name: str) -> Iterator[None]:
        """Hold a place for a skill until it is kept: many that are proven at the same time are counted, too."""
        author = caller.key_name
        held = {each: count for (by, each), count in self._under_way.items() if by == author}
        if sum(held.values()) >= MOST_UNDER_WAY:
            raise QueueFull("Too many of your skills are being saved.", retry_after_seconds=RETRY_AFTER_SECONDS)
        names = {*self._shelf.names_of(author), *held}
        if name not in names and len(names) >= self._max_skills:
            raise TooManySkills(f"You have {self._max_skills} skills in use, drafts among them, which is the limit.")
        self._under_way[author, name] += 1
        try:
            yield
        finally:
            self._under_way[author, name] -= 1
            if not self._under_way[author, name]:
                del self._under_way[author, name]

    def _declared(self, caller: Caller, paths: Sequence[str] | None) -> list[Tool]:
        """Return the tools of these paths; what the caller may not call itself, its skill may not declare."""
        mine = self._shelf.own_of(caller.key_name)
        own = [self._shelf.reach.as_tool(skill, mine) for skill in mine.values() if not skill.drift]
        if any(path.startswith(f"{SKILLS}/") for path in paths or ()):  # what was just approved is not listed yet
            own += [self._shelf.reach.as_tool(skill) for skill in self._shelf.approved_for(caller)]
        declared = []
        if len(set(paths or ())) > MAX_TOOLS:
            raise InvalidRequest(f"`tools` must have at most {MAX_TOOLS} entries.")
        for path in dict.fromkeys(paths or ()):
            if len(path) > MAX_PATH_CHARACTERS:
                raise InvalidRequest(f"`tools` must have names of at most {MAX_PATH_CHARACTERS} characters.")
            server, slash, name = path.partition("/")
            if not slash:
                raise InvalidRequest(f"`tools` must name tools as SERVER/TOOL, such as postgres/execute_sql: {path}.")
            try:
                declared.append(self._toolbox.callable_tool(caller.role, server, name, own))
            except (ToolDenied, ToolNotFound) as error:
                if server == SKILLS and name in self._shelf.own(caller) and name not in mine:
                    raise InvalidRequest(f"`tools` names {path}, whose proof failed: mend that first.") from error
                raise InvalidRequest(
                    f"`tools` must name tools that you may call, as SERVER/TOOL. {error.message}"
                ) from error
        return declared

    def _inferred_tools(
        self,
        caller: Caller,
        source: _Source,
        imported: Sequence[str] | None,
        imports: Sequence[Sequence[str | None]],
    ) -> Sequence[str]:
        """Return what the code imports, and what it called besides, unless a skill that it imports calls that."""
        if imported is None:
            return source.called or self._imported(caller, imports)
        own = self._shelf.own_of(caller.key_name)
        through: set[str] = set()
        for path in imported:
            name = path.removeprefix(f"{SKILLS}/")
            used = self._shelf.reach.version(name, own) if name != path else None
            through |= self._shelf.reach.of(used) if used is not None else set()
        return [*imported, *(path for path in source.called or () if path not in through)]

    def _imported(self, caller: Caller, imports: Sequence[Sequence[str | None]]) -> list[str]:
        """Return the paths of what the code imports, which it names by identifiers."""
        names = Names.of(self._catalog.visible(caller.role))
        paths = []
        for server, tool in imports:
            if server == SKILLS and tool is not None:
                paths.append(f"{SKILLS}/{tool}")
            elif server is not None and tool is not None and (found := names.find(server, tool)) is not None:
                paths.append(found.path)
            elif server is not None and tool is not None:
                raise InvalidRequest(f"`code` imports {server}/{tool}, and there is no such tool that you may call.")
            else:
                raise InvalidRequest(
                    f"`tools` must be given, as SERVER/TOOL: they cannot be told from the import of all of {server}."
                )
        return paths

    def _known_imports(self, caller: Caller, imports: Sequence[Sequence[str | None]]) -> list[str] | None:
        try:
            return self._imported(caller, imports)
        except InvalidRequest:  # they cannot be told, or the live run tells
            return None

    def _candidate(self, caller: Caller, content: SkillContent, declared: Sequence[Tool]) -> Candidate:
        needed, codes = self._shelf.reach.needs(content, self._shelf.own_of(caller.key_name))
        return Candidate(content.name, content.language, content.code, tuple(declared), needed, codes)

    async def _proven(
        self, caller: Caller, draft: SkillDraft, found: _Found, progress: Progress
    ) -> tuple[SkillVersion, bytes | None]:
        content = found.content
        inferred = tuple(name for name in ("input", "output", "tools", "examples") if getattr(draft, name) is None)
        remarks = [*await _remarks_on(content), *self._alike(caller, content.name)]
        candidate = self._candidate(caller, content, found.declared)
        digests = self._shelf.reach.digests(content, self._shelf.own_of(caller.key_name))
        if found.undeclared:  # nothing is run, so nothing is touched
            remarks = [_undeclared(found.undeclared), *remarks]
            return _saved(caller, content, inferred, remarks, None), None
        mistakes = await self._mistakes(caller, draft, found, candidate, progress)
        if mistakes and draft.check is Check.STRICT:
            return _saved(caller, content, inferred, (*mistakes, *remarks), None), None
        executions: list[str] = []
        runs: list[Run] = []
        recorded = Recording()
        proof, recording = None, None
        try:
            for number, example in enumerate(content.examples, 1):
                progress(f"running example {number} of {len(content.examples)}")
                live = await self._proofs.live(caller, candidate, example, recorded)
                executions.append(live.execution_id)
                runs.append(live.run)
                if live.has_printed and live.run.output is None and PRINTS not in remarks:
                    remarks.append(PRINTS)
            for number, run in enumerate(runs, 1):
                if wrong := await asyncio.to_thread(mismatches, found.annotated, run.output, "output"):
                    said = "The code says by its types that it returns something else."
                    raise ProofFailed("output", f"{said} {' '.join(wrong)}", f"examples[{number - 1}]")
            if not content.output:
                content = await _with_output(content, [run.output for run in runs])
            for number, run in enumerate(runs, 1):
                if wrong := await asyncio.to_thread(mismatches, content.output, run.output, "output"):
                    raise ProofFailed("output", " ".join(wrong), f"examples[{number - 1}]")
                progress(f"replaying example {number} of {len(runs)}")
                await self._proofs.replay(caller, candidate, run)
            self._require_unchanged(caller, content, digests)
            proven = Proven(tuple(runs), (*candidate.tools, *candidate.needed))
            recording = await asyncio.to_thread(proven.packed)  # it may have some megabytes
            remarks += _unused(found, runs)
            proof = Proof(time.time(), digests or {}, tuple(executions), _calls(runs))
        except ProofFailed as failure:
            remarks = [failure.remark, *mistakes, *remarks]  # first what keeps it a draft
        return _saved(caller, content, inferred, remarks, proof), recording

    async def _mistakes(
        self, caller: Caller, draft: SkillDraft, found: _Found, candidate: Candidate, progress: Progress
    ) -> tuple[Remark, ...]:
        """Have the code checked as a program is, unless it cannot be told what it imports."""
        if draft.check is Check.OFF or not candidate.tools or found.imported is None:
            return ()
        progress("checking the code")
        return tuple(_remark(mistake) for mistake in await self._proofs.check(caller, candidate))

    def _alike(self, caller: Caller, name: str) -> list[Remark]:
        """Remark a name that one takes for that of another skill, of those that the author may know."""
        shown = {skill.name for skill in self._shelf.listed(caller)} - {name}
        return [
            Remark("alike", f"Its name looks like that of {other}, which is another skill.", "name")
            for other in sorted(shown)
            if _drawn(other) == _drawn(name)
        ]

    def _require_unchanged(self, caller: Caller, content: SkillContent, before: dict[str, str] | None) -> None:
        """Its proof is for the tools that it was run with."""
        if before is None or self._shelf.reach.digests(content, self._shelf.own_of(caller.key_name)) != before:
            raise ProofFailed("tools", "A tool that it calls disappeared or changed during the proof. Save it again.")


def _saved(
    caller: Caller, content: SkillContent, inferred: tuple[str, ...], remarks: Sequence[Remark], proof: Proof | None
) -> SkillVersion:
    return SkillVersion(
        content=content,
        author=caller.key_name,
        author_role=caller.role.name,
        state=SkillState.PROVEN if proof is not None else SkillState.DRAFT,
        created_at=time.time(),
        inferred=inferred,
        remarks=tuple(remarks),
        proof=proof,
    )


def _remark(mistake: Mistake) -> Remark:
    return Remark("check", f"Line {mistake.line}: {mistake.message}", f"code:{mistake.line}:{mistake.column}")


def _drawn(name: str) -> str:
    """Spell a name with one letter for each that looks like it."""
    return name.translate(LOOKALIKES).replace("rn", "m").replace("vv", "w")


def _unused(found: _Found, runs: Sequence[Run]) -> list[Remark]:
    """Remark what is declared for nothing, where that can be told: it keeps roles from the skill."""
    if found.imported is None:
        return []
    used = {*found.imported, *(call.path for run in runs for call in run.calls)}
    paths = [tool.path for tool in found.declared if tool.path not in used]
    told = f"`tools` declares {', '.join(paths[:5])}, which the code does not import and no example called."
    return [Remark("unused", told, "tools")] if paths else []


def _undeclared(paths: Sequence[str]) -> Remark:
    return Remark("undeclared", f"The code imports {', '.join(paths[:5])}, which `tools` must name.", "tools")


def _retiring(skill: SkillVersion) -> str:
    return f"code-executor skills retire {skill.name} --version {skill.version[:12]}"


def _named(used: SkillVersion, *, begins: bool = True) -> str:
    state = "built-in" if used.author == BUILT_IN else used.effective_state
    return f"{'The' if begins else 'the'} {state} version {used.version[:12]}"


def _given(draft: SkillDraft, source: _Source) -> SkillContent:
    return SkillContent(
        draft.name,
        draft.description,
        source.language,
        source.code,
        draft.input or {},
        draft.output or {},
        (),
        draft.examples or (),
    )


async def _require_clean(content: SkillContent) -> None:
    if refused := [remark for remark in await _remarks_on(content) if remark.refuses]:
        raise SkillRefused(" ".join(f"`{remark.place}`: {remark.message}" for remark in refused[:5]))


async def _remarks_on(content: SkillContent) -> tuple[Remark, ...]:
    return await asyncio.to_thread(remarks_on, content)  # there may be much code


def _calls(runs: Sequence[Run]) -> int:
    return sum(len(run.calls) for run in runs)


def _parameters(draft: SkillDraft) -> list[str] | None:
    """Return the names that a program's parameters have: those of the schema, or of the examples."""
    if draft.input is not None:
        properties = draft.input.get("properties")
        return sorted(properties) if isinstance(properties, Mapping) else []
    if draft.examples:
        return sorted({name for example in draft.examples for name in example})
    return None


def _examples(found: Mapping[str, Any], schema: Mapping[str, Any] | None) -> tuple[Mapping[str, Any], ...]:
    """Return what a program was run with, or nothing where nothing is needed."""
    if found["defaults"] or found["form"] == "program":
        return (found["defaults"],)
    if schema is not None and not schema.get("required"):
        return ({},)
    raise InvalidRequest(
        '`examples` must have at least one input that works, such as {"table": "orders"} for a parameter `table`.'
    )


def _telling(schema: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return a schema that was read from the code, unless it says less than what the examples show."""
    if schema is None or not schema.keys() - {"type", "additionalProperties", "items"}:
        items = (schema or {}).get("items") or (schema or {}).get("additionalProperties")
        says_more = isinstance(items, Mapping) and bool(items.keys() - {"type"})
        is_scalar = (schema or {}).get("type") not in (None, "object", "array")
        return schema or {} if says_more or is_scalar else {}
    return schema


async def _with_output(content: SkillContent, values: Sequence[Any]) -> SkillContent:
    """Infer what is returned. In TypeScript a number that happened to be whole may be any number the next time."""
    schema = await asyncio.to_thread(schema_of, values)
    if content.language is Language.TYPESCRIPT:
        schema = _with_numbers(schema)
    schema = {**schema, OBSERVED: True}
    if len(canonical_json(schema)) > MAX_SCHEMA_BYTES:
        message = f"The schema of what it returned has more than {MAX_SCHEMA_BYTES} bytes: give `output`."
        raise ProofFailed("output", message, "output")
    found = replace(content, output=schema)
    for remark in await _remarks_on(found):
        if remark.refuses:  # its names are what the tools returned
            raise ProofFailed(remark.kind, f"{remark.message} Give `output`.", remark.place)
    return found


def _with_numbers(schema: Any) -> Any:
    match schema:
        case dict():
            return {word: _with_numbers(value) for word, value in schema.items()} | _number_type(schema.get("type"))
        case list():
            return [_with_numbers(item) for item in schema]
        case _:
            return schema


def _number_type(kinds: Any) -> dict[str, Any]:
    match kinds:
        case "integer":
            return {"type": "number"}
        case list():
            return {"type": ["number" if kind == "integer" else kind for kind in kinds]}
        case _:  # none, or a property of that name
            return {}


def _closed(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Refuse what an input does not name, so that a misspelt name is noticed, unless the code says more of it."""
    return {"additionalProperties": False, **schema} if schema.get("properties") else schema


def _require_small(draft: SkillDraft, source: _Source) -> None:
    description = draft.description
    if (
        not description.strip()
        or len(description) > MAX_DESCRIPTION_CHARACTERS
        or description.splitlines() != [description]
    ):
        raise InvalidRequest(f"`description` must be one line of 1 to {MAX_DESCRIPTION_CHARACTERS} characters.")
    try:
        size = len(source.code.encode())
    except UnicodeEncodeError as error:
        raise InvalidRequest("`code` must be Unicode text; it holds a lone surrogate.") from error
    if not source.code.strip() or size > MAX_CODE_BYTES:
        raise InvalidRequest(f"`code` must have 1 to {MAX_CODE_BYTES} bytes; it has {size}.")
    for name in ("input", "output"):
        schema = getattr(draft, name)
        if schema is not None and len(_written(name, schema)) > MAX_SCHEMA_BYTES:
            raise InvalidRequest(f"`{name}` must have at most {MAX_SCHEMA_BYTES} bytes.")
    if draft.input is not None and draft.input.get("type", "object") != "object":
        raise InvalidRequest(
            "`input` must be the schema of an object: its properties are what the skill is called with."
        )
    if draft.examples is not None and not 1 <= len(draft.examples) <= MAX_EXAMPLES:
        raise InvalidRequest(f"`examples` must have 1 to {MAX_EXAMPLES} entries.")
    for number, example in enumerate(draft.examples or ()):
        _require_small_example(number, example)


def _require_small_example(number: int, example: Mapping[str, Any]) -> None:
    if len(_written(f"examples[{number}]", example)) > MAX_EXAMPLE_BYTES:
        raise InvalidRequest(f"`examples[{number}]` must have at most {MAX_EXAMPLE_BYTES} bytes.")


def _require_writable(content: SkillContent) -> None:
    """Refuse what was found out and cannot be kept, as what is given is refused."""
    if (size := len(content.code.encode())) > MAX_CODE_BYTES:
        raise InvalidRequest(f"`code` must have at most {MAX_CODE_BYTES} bytes; written as a function, it has {size}.")
    for number, example in enumerate(content.examples):
        _require_small_example(number, example)
    for name in ("input", "output"):
        if len(_written(name, getattr(content, name))) > MAX_SCHEMA_BYTES:
            raise InvalidRequest(
                f"`{name}` must be given: the schema that the code tells has more than {MAX_SCHEMA_BYTES} bytes."
            )


def _written(name: str, value: Any) -> bytes:
    try:
        written = canonical_json(value)
    except (ValueError, RecursionError, UnicodeEncodeError) as error:
        raise InvalidRequest(f"`{name}` must be JSON that is not nested too deeply.") from error
    if is_too_deep(value):
        raise InvalidRequest(f"`{name}` must be nested at most {MAX_LEVELS} levels deep.")
    return written


def _require_fitting_examples(content: SkillContent) -> None:
    steps = Steps(MAX_EXAMPLES * MAX_STEPS)
    for number, example in enumerate(content.examples):
        if wrong := mismatches(content.input, dict(example), f"examples[{number}].input", budget=steps):
            raise InvalidRequest(" ".join(wrong))

"""Files that last from one execution to the next, by name: whose they are, whose turn it is, and which versions."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from types import TracebackType

from orchestrator.domain.access import Caller
from orchestrator.domain.errors import (
    FileNotFound,
    OrchestratorError,
    QueueFull,
    TooManyWorkspaces,
    WorkspaceBusy,
    WorkspaceNotFound,
)
from orchestrator.domain.execution import Outcome
from orchestrator.domain.file_words import count_in_words, why_in_words
from orchestrator.domain.files import (
    FileLimits,
    Keep,
    Kept,
    Place,
    Version,
    Why,
    WorkspaceEnd,
    WorkspaceUse,
    charged,
    require_workspace_name,
)
from orchestrator.service.files import StoredFile
from orchestrator.service.ports import Contents, FileIndex
from orchestrator.service.quota import Quota, Room

RETRY_AFTER_SECONDS = 5
# Files of these kinds never travel, so a workspace that has some is whole without them.
NO_LOSS = (Why.NOT_A_FILE,)
ITSELF = "."  # the name under which the folder itself is left out, with all that was in it

Key = tuple[str, str]  # owner and name


class Turn:
    """A place in the queue for a workspace, then the workspace; given back exactly once, by leaving the context."""

    def __init__(self, workspaces: Workspaces, key: Key, caller: str, execution_id: str | None) -> None:
        self._workspaces = workspaces
        self.key = key
        self.caller = caller
        self.execution_id = execution_id  # None of one that restores or deletes the workspace
        self.mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def has_come(self) -> bool:
        return self.mine.done()

    def leave(self) -> None:
        self._workspaces._leave(self)

    async def __aenter__(self) -> None:
        try:
            await self.mine
        except BaseException:
            self.leave()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()


class Workspaces:
    def __init__(
        self,
        index: FileIndex,
        contents: Contents,
        quota: Quota,
        *,
        versions: int,
        max_workspaces_per_caller: int,
        limits: FileLimits,
        max_waiting: int,
        max_waiting_per_caller: int,
    ) -> None:
        self._index = index
        self._contents = contents
        self._quota = quota
        self._versions = versions
        self._max_workspaces = max_workspaces_per_caller
        self._limits = limits
        self._max_waiting = max_waiting
        self._max_waiting_per_caller = max_waiting_per_caller
        self._queues: dict[Key, deque[Turn]] = {}  # whoever is first has the workspace

    # --- for executions ---

    async def require_place_for(self, caller: Caller, name: str) -> None:
        """Refuse a workspace that would be one too many, before a program runs for it."""
        owner = caller.owner_of(name)
        count = await self._index.count_workspaces(owner)
        if count >= self._max_workspaces and await self._index.newest_version(owner, name) is None:
            message = f"There are {count} workspaces, and {name} would be another; at most {self._max_workspaces}"
            raise TooManyWorkspaces(f"{message} are allowed.")

    def queue(self, caller: Caller, use: WorkspaceUse, execution_id: str | None = None) -> Turn:
        """Give a place in the queue for a workspace, or refuse it."""
        key = (caller.owner_of(require_workspace_name(use.name)), use.name)
        if key in self._queues and not use.wait:
            raise _busy(self._queues[key][0], is_for_an_execution=execution_id is not None)
        if key in self._queues:
            self._require_place_to_wait(caller)
        turn = Turn(self, key, caller.key_name, execution_id)
        self._queues.setdefault(key, deque()).append(turn)
        if self._queues[key][0] is turn:
            turn.mine.set_result(None)
        return turn

    def _require_place_to_wait(self, caller: Caller) -> None:
        waiting = [turn.caller for queue in self._queues.values() for turn in islice(queue, 1, None)]
        own = waiting.count(caller.key_name)
        if own >= self._max_waiting_per_caller:
            message = f"{own} of your executions are already waiting for a workspace."
        elif len(waiting) >= self._max_waiting:
            message = f"{len(waiting)} executions are waiting for a workspace."
        else:
            return
        raise QueueFull(message, retry_after_seconds=RETRY_AFTER_SECONDS)

    async def current(self, turn: Turn) -> Version | None:
        """Return what a workspace holds now."""
        return await self._index.newest_version(*turn.key)

    async def keep(
        self,
        turn: Turn,
        use: WorkspaceUse,
        execution_id: str,
        outcome: Outcome | None,
        before: Version | None,
        kept: Kept,
        *,
        complete: bool,
    ) -> WorkspaceEnd:
        """Make what an execution left the newest version, unless that would lose something; say why not."""
        end = WorkspaceEnd(
            use.name,
            version=before.execution_id if before else None,
            files=len(before.files) if before else 0,
            bytes=before.bytes if before else 0,
            left_out=kept.left_out,
            left_out_count=kept.left_out_count,
        )
        if outcome is not Outcome.COMPLETED and use.keep is not Keep.ALWAYS:
            ended = f"The execution ended as {outcome}." if outcome else "The execution did not finish."
            return replace(end, left_out=(), left_out_count=0, why_not=ended)
        version = Version(use.name, execution_id, turn.caller, time.time(), kept.files)
        if before is not None and before.digest == version.digest and not self._lost(kept) and complete:
            return replace(end, kept=True)  # nothing changed, so the version stands
        try:
            with self._quota.room(turn.caller) as room:
                why_not = await self._why_not(turn, version, kept, room, is_new=before is None, complete=complete)
                if why_not is None:
                    await self._index.add_version(turn.key[0], version, self._versions)
        except OrchestratorError as error:
            why_not = error.summary
        if why_not is not None:
            return replace(end, why_not=why_not)
        return replace(end, kept=True, version=execution_id, files=len(version.files), bytes=version.bytes)

    # --- for callers ---

    async def newest(self, caller: Caller) -> Sequence[Version]:
        """Return the newest version of each workspace that the caller has or shares, newest first."""
        found = await self._index.newest_versions(caller.owners)
        return [version for owner, version in found if caller.owner_of(version.workspace) == owner]

    async def versions(self, caller: Caller, name: str) -> Sequence[Version]:
        """Return the versions of a workspace, newest first, or raise WorkspaceNotFound."""
        found = await self._index.versions(caller.owner_of(name), name)
        if not found:
            raise WorkspaceNotFound(f"You have no workspace {name[:64]}.")
        return found

    async def file(self, caller: Caller, name: str, file: str, version: str | None = None) -> StoredFile:
        """Return a file of a workspace, as it is now or as an execution left it, or raise FileNotFound."""
        found = await self._index.file_in_version(caller.owner_of(name), name, file, version)
        if found is None:
            chosen(await self.versions(caller, name), version)  # says if it is not the file that is missing
            raise FileNotFound(f"The workspace {name} has no file {file[:200]!r}.")
        return StoredFile(found, self._contents)

    async def restore(self, caller: Caller, name: str, version: str) -> Version:
        """Make an earlier version the newest, while no execution has the workspace (WorkspaceBusy)."""
        async with self.queue(caller, WorkspaceUse(name, wait=False)) as _:
            earlier = chosen(await self.versions(caller, name), version)
            restored = replace(earlier, made_at=time.time())
            await self._index.add_version(caller.owner_of(name), restored, self._versions)
            return restored

    async def delete(self, caller: Caller, name: str) -> int:
        """Delete a workspace with all versions, while no execution has it; return how many versions there were."""
        async with self.queue(caller, WorkspaceUse(name, wait=False)) as _:
            await self.versions(caller, name)
            return await self._index.drop_workspace(caller.owner_of(name), name)

    async def has_version(self, caller: Caller, name: str, execution_id: str) -> bool:
        """Tell whether a workspace has, as one of its versions, what an execution left."""
        return await self._index.has_version(caller.owner_of(name), name, execution_id)

    async def _why_not(
        self, turn: Turn, version: Version, kept: Kept, room: Room, *, is_new: bool, complete: bool
    ) -> str | None:
        """Say what keeps a version from being whole, or from having a place."""
        if not complete:
            return "The sandbox ended before its files were handed over."
        if lost := self._lost(kept):
            return lost
        if is_new and await self._index.count_workspaces(turn.key[0]) >= self._max_workspaces:
            return f"At most {self._max_workspaces} workspaces are allowed; delete one first."
        if not await room.grow_to(charged(version.files)):
            return "The quota for files is used up; delete workspaces, or uploads, first."
        return None

    def _lost(self, kept: Kept) -> str | None:
        """Say what would be missing from a version; links and the like never travel and are no loss."""
        lost = [each for each in kept.left_out if each.why not in NO_LOSS or each.name == ITSELF]
        count = kept.left_out_count - len(kept.left_out) + len(lost)
        if not count:
            return None
        if not lost:
            return f"{count_in_words(count)} could not be kept."
        first = lost[0]
        if first.name == ITSELF:
            fate = "was replaced by something else" if first.why is Why.NOT_A_FILE else "could not be read"
            return f"/workspace/{Place.WORKSPACE} itself {fate}."
        if all(each.why is Why.TOO_MANY for each in lost):
            all_files = count + len(kept.files)
            most = self._limits.max_files
            return f"{count} of {all_files} files could not be kept: a workspace holds at most {most}."
        more = f", and {count - 1} more" if count > 1 else ""
        return f"'{first.name}' could not be kept ({why_in_words(first, self._limits)}){more}."

    def _leave(self, turn: Turn) -> None:
        queue = self._queues.get(turn.key, deque())
        if turn not in queue:
            return
        queue.remove(turn)
        if not queue:
            del self._queues[turn.key]
        elif not queue[0].mine.done():
            queue[0].mine.set_result(None)


def chosen(versions: Sequence[Version], execution_id: str | None) -> Version:
    """Return the version that an execution made, or the newest, or raise FileNotFound."""
    if execution_id is None:
        return versions[0]
    found = next((version for version in versions if version.execution_id == execution_id), None)
    if found is None:
        raise FileNotFound(f"The workspace {versions[0].workspace} has no version {execution_id[:64]}.")
    return found


def _busy(holder: Turn, *, is_for_an_execution: bool) -> WorkspaceBusy:
    """Say who has a workspace: whoever may use it may know."""
    name = holder.key[1]
    if holder.execution_id is None:
        return WorkspaceBusy(f"The workspace {name} is just being restored or deleted.")
    how_to_wait = " Leave `wait` at true to have this one wait for it." if is_for_an_execution else ""
    message = f"Execution {holder.execution_id} has the workspace {name}.{how_to_wait}"
    return WorkspaceBusy(message, execution_id=holder.execution_id)

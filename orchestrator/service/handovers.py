"""The files of one execution, from the store into its sandbox and back."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import structlog

from orchestrator.domain.errors import OrchestratorError
from orchestrator.domain.execution import Execution, Outcome
from orchestrator.domain.files import INPUTS, Brought, FileLimits, Kept, Place, Version, WorkspaceEnd
from orchestrator.service.files import Files, StoredFile
from orchestrator.service.keeping import Keeper
from orchestrator.service.ports import FileSink, Sandbox
from orchestrator.service.workspaces import Turn, Workspaces

log = structlog.get_logger()


class Handover:
    def __init__(
        self,
        files: Files,
        workspaces: Workspaces,
        execution: Execution,
        inputs: tuple[Brought, ...],
        turn: Turn | None,
    ) -> None:
        self._files = files
        self._workspaces = workspaces
        self._execution = execution
        self._inputs = inputs
        self._turn = turn
        self._before: Version | None = None
        self._keeper = Keeper(files.contents, {})
        self._room = files.room_for(execution.caller)
        self.kept = Kept()
        self.workspace: WorkspaceEnd | None = None

    @property
    def places(self) -> Mapping[Place, FileLimits]:
        """Return what is taken out of the sandbox, and how much of it."""
        outputs = {Place.OUT: self._files.rules.outputs}
        return outputs if self._turn is None else {**outputs, Place.WORKSPACE: self._files.rules.workspace}

    @property
    def sink(self) -> FileSink:
        return self._keeper

    @property
    def contents(self) -> frozenset[str]:
        """Return the hashes of all that it was given and all that it left so far."""
        return self._keeper.contents | {brought.file.sha256 for brought in self._inputs}

    async def bring(self, sandbox: Sandbox) -> None:
        """Write inputs and workspace into the sandbox, before the program runs."""
        for brought in self._inputs:
            await sandbox.bring(f"{INPUTS}/{brought.name}", self._files.content_of(brought))
        if self._execution.background:  # it may run for a day, and nobody who sent it waits with what it was given
            self._inputs = ()
            self._files.let_go(self._execution.id)
        if self._turn is None:
            return
        self._before = await self._workspaces.current(self._turn)
        lasting = self._before.files if self._before is not None else ()
        self._keeper = Keeper(self._files.contents, {(Place.WORKSPACE, file.name): file for file in lasting})
        for file in lasting:
            stored = StoredFile(file, self._files.contents)
            await sandbox.bring(f"{Place.WORKSPACE}/{file.name}", stored.pieces())

    async def settle(self, outcome: Outcome | None) -> None:
        """Decide what is kept of what came out; without an outcome, the program's end is not known."""
        await self._keeper.abandon()
        self.kept = self._keeper.kept(Place.OUT)
        try:
            self.kept = await self._files.settle(self._room, self.kept)
        except OrchestratorError as error:  # then nothing can be counted, and they are kept as they are
            log.warning("files.quota_unknown", execution_id=self._execution.id, error=error.message)
        if self._turn is not None and self._execution.workspace is not None:
            if self._before is None:  # it may have failed before it came to its workspace
                with suppress(OrchestratorError):
                    self._before = await self._workspaces.current(self._turn)
            self.workspace = await self._workspaces.keep(
                self._turn,
                self._execution.workspace,
                self._execution.id,
                outcome,
                self._before,
                self._keeper.kept(Place.WORKSPACE),
                complete=self._keeper.complete,
            )

    def end(self) -> None:
        """Let go of what was held, when the record says what is kept."""
        self._room.give_back()
        self._files.let_go(self._execution.id)

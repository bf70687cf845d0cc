"""How much is kept for whom. A caller's oldest files make room for its new ones; nobody's make room for another's."""

from __future__ import annotations

from orchestrator.domain.execution import Shares
from orchestrator.service.ports import FileIndex


class Quota:
    def __init__(self, index: FileIndex, stored_bytes: Shares) -> None:
        self._index = index
        self._stored_bytes = stored_bytes

    async def free_bytes(self, caller: str) -> int:
        """Return how much may be added for a caller as things are."""
        own = self._stored_bytes.per_caller - await self._index.stored_bytes(caller)
        return min(own, self._stored_bytes.total - await self._index.stored_bytes())

    async def make_room(self, caller: str, size: int) -> bool:
        """Return whether `size` bytes may be added, after the caller's oldest files have made room if that helps."""
        if size > self._stored_bytes.per_caller:
            return False
        missing = size - await self.free_bytes(caller)
        if missing > 0:
            missing -= await self._index.drop_oldest_files(caller, missing)
        return missing <= 0

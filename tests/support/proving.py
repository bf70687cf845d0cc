"""Proves the built-in skills on the servers that are there, and compares that with the proofs that are kept."""

from __future__ import annotations

import json

from orchestrator.adapters.skill_library import read_content
from orchestrator.settings import SKILL_LIBRARY
from tests.support.api import Api


def library() -> list[str]:
    return sorted(file.stem for file in SKILL_LIBRARY.glob("*.json"))


async def require_proven_as_kept(api: Api, name: str) -> None:
    """With the tools as they are, its proof need not be made anew, and making it anew gives the same."""
    status, listed = await api.get(f"/skills/{name}")
    assert (status, listed["state"], listed["drift"]) == (200, "approved", []), listed
    content = read_content(SKILL_LIBRARY / f"{name}.json")
    status, saved = await api.post("/skills", content.as_document())
    assert (status, saved["state"]) == (201, "proven"), saved
    assert (saved["version"], saved["remarks"]) == (content.version, [])
    kept = json.loads((SKILL_LIBRARY / "proofs" / f"{name}.json").read_text())
    assert (kept["version"], kept["digests"]) == (content.version, saved["proof"]["digests"])
    assert (await api.post(f"/skills/{name}/replay", {}))[1]["same"]
    assert (await api.delete(f"/skills/{name}"))[1]["state"] == "retired"

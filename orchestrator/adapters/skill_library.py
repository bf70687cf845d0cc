"""The built-in skills: files of the package, approved by their content, each with the proof that it was given.

NAME.py or NAME.ts has the code, NAME.json the rest, and proofs/NAME.json what its runs on the real servers recorded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from orchestrator.domain.execution import Language
from orchestrator.domain.skills import BUILT_IN, Proof, SkillContent, SkillState, SkillVersion

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class SkillLibrary:
    skills: tuple[SkillVersion, ...]
    recordings: Mapping[str, bytes]  # as JSON, by name


def read_library(directory: Path) -> SkillLibrary:
    skills, recordings = [], {}
    for file in sorted(directory.glob("*.json")):
        content = read_content(file)
        recorded = directory / "proofs" / file.name
        document = json.loads(recorded.read_text()) if recorded.is_file() else {}
        if document.get("version") != content.version:  # approved is what was proven, and not what was changed since
            log.warning("skill.not_proven", skill=content.name, version=content.version)
            continue
        recordings[content.name] = json.dumps(document["recording"]).encode()
        proof = Proof(document["provenAt"], document["digests"], (), document["calls"])
        skills.append(
            SkillVersion(
                content=content,
                author=BUILT_IN,
                author_role="",
                state=SkillState.APPROVED,
                created_at=proof.proven_at,
                proof=proof,
                approved_by=BUILT_IN,
                approved_at=0.0,
            )
        )
    return SkillLibrary(tuple(skills), recordings)


def read_content(file: Path) -> SkillContent:
    """Read one skill by its NAME.json."""
    about = json.loads(file.read_text())
    code = next(path for language in Language if (path := file.with_suffix(language.suffix)).is_file())
    language = next(language for language in Language if code.suffix == language.suffix)
    return SkillContent.from_document(
        {**about, "name": file.stem, "language": language.value, "code": code.read_bytes().decode()}
    )

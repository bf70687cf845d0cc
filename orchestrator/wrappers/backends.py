"""The languages that programs can be written in, each with its backend."""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.domain.execution import Language
from orchestrator.wrappers.backend import LanguageBackend
from orchestrator.wrappers.python.backend import PythonBackend
from orchestrator.wrappers.typescript.backend import TypescriptBackend

BACKENDS: Mapping[Language, LanguageBackend] = {
    Language.TYPESCRIPT: TypescriptBackend(),
    Language.PYTHON: PythonBackend(),
}

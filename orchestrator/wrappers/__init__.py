"""JSON Schema → typed source that calls a tool, in every language that programs are written in."""

from orchestrator.wrappers.backend import LanguageBackend
from orchestrator.wrappers.backends import BACKENDS
from orchestrator.wrappers.contract import Contract
from orchestrator.wrappers.generator import WrapperGenerator, Wrappers, generate
from orchestrator.wrappers.shapes import Shape, learned, observe

__all__ = [
    "BACKENDS",
    "Contract",
    "LanguageBackend",
    "Shape",
    "WrapperGenerator",
    "Wrappers",
    "generate",
    "learned",
    "observe",
]

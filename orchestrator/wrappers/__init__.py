"""JSON Schema → typed TypeScript and Python source that calls a tool."""

from orchestrator.wrappers.generator import WrapperGenerator, Wrappers, generate
from orchestrator.wrappers.shapes import Shape, learned, observe
from orchestrator.wrappers.signatures import example_call, signature

__all__ = ["Shape", "WrapperGenerator", "Wrappers", "example_call", "generate", "learned", "observe", "signature"]

"""The tools that this execution may call: `from servers.SERVER import TOOL`; servers.discovery lists them."""

from __future__ import annotations

from importlib import import_module as _import_module
from types import ModuleType as _ModuleType


def __getattr__(name: str) -> _ModuleType:
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        return _import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        raise AttributeError(f"There is no server '{name}'; servers.discovery.list_servers() lists them.") from error

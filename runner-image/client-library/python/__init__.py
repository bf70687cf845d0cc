"""The tools that this execution may call: `from servers.SERVER import TOOL`; servers.discovery lists them."""

from __future__ import annotations

import sys as _sys
from importlib import import_module as _import_module
from types import ModuleType as _ModuleType


def __getattr__(name: str) -> _ModuleType:
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        return _import_module(f"{__name__}.{name}")
    except ModuleNotFoundError:
        pass  # what is raised below has no cause that a program could care about
    from ._names import missing

    servers = _import_module(f"{__name__}.discovery").list_servers()
    raise missing(_sys._getframe(1), "There is no server", name, "there are", servers)

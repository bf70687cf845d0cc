"""Loads the tools of a server when they are used: a program that needs one does not wait for fifty."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Tools(ModuleType):
    """The package of a server, with one module and one function for each tool."""

    __all__: list[str]

    def __getattr__(self, name: str) -> Any:
        if name not in self.__all__:
            from ._names import missing

            asking, is_of_skills = sys._getframe(1), self.__name__ == "skills"
            complaint = (
                ("There is no skill", "there are") if is_of_skills else (f"{self.__name__} has no tool", "it has")
            )
            raise missing(asking, complaint[0], name, complaint[1], self.__all__)
        import_module(f"{self.__name__}.{name}")
        return self.__dict__[name]

    def __setattr__(self, name: str, value: object) -> None:
        # A module is put into its package when it was loaded; here the function of the same name takes its place.
        is_tool = isinstance(value, ModuleType) and name in self.__all__
        super().__setattr__(name, getattr(value, name) if is_tool else value)

    def __dir__(self) -> list[str]:
        return [*self.__all__, *super().__dir__()]


def load_tools_when_used(package: str) -> None:
    sys.modules[package].__class__ = _Tools

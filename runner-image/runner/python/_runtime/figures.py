"""Shows the figures of matplotlib as pictures, as notebooks do: on show(), and those that are open at the end."""

from __future__ import annotations

import atexit
import sys
from functools import wraps
from importlib import import_module
from types import ModuleType
from typing import Any
from weakref import WeakSet


def show_figures_of(backends: ModuleType) -> None:
    """Show figures from now on, given the module of matplotlib that all backends build upon."""
    gallery = _Gallery(backends.Gcf)
    print_figure = backends.FigureCanvasBase.print_figure

    def show(manager: Any) -> None:
        gallery.show(manager.canvas.figure)
        # plt.show() closes, so that the next plot begins a figure of its own; figure.show() does not.
        if sys._getframe(1).f_globals.get("__name__") != "matplotlib.figure":
            backends.Gcf.destroy(manager)

    def save(canvas: Any, *args: Any, **options: Any) -> Any:
        gallery.saved.add(canvas.figure)
        return print_figure(canvas, *args, **options)

    backends.FigureManagerBase.show = show
    backends.FigureCanvasBase.print_figure = wraps(print_figure)(save)
    # matplotlib closes all figures at the exit, too; what was registered last runs first.
    atexit.register(gallery.close)


class _Gallery:
    def __init__(self, open_figures: Any) -> None:
        self.saved: WeakSet[Any] = WeakSet()
        self._open_figures = open_figures
        self._full = False
        self._refused = 0
        self._reason = ""

    def show(self, figure: Any) -> None:
        """Show a figure; the caller sees one that did not change only once."""
        if not self._full:  # drawing takes a while
            try:
                import_module("servers.output").show_now(figure)
                return
            except Exception as error:
                self._full = getattr(error, "code", "") == "limit_exceeded"
                self._reason = str(error).partition("\n")[0] or type(error).__name__
        self._refused += 1

    def close(self) -> None:
        """Show what is still open, and tell what could not be shown."""
        # A program that emits pictures itself has read a figure from the file to which it saved it.
        emits = getattr(sys.modules.get("servers.output"), "emitted_by_program", False)
        for manager in self._open_figures.get_all_fig_managers():
            figure = manager.canvas.figure
            is_empty = len(figure.get_children()) <= 1  # nothing but its background
            if not is_empty and not (emits and figure in self.saved):
                self.show(figure)
        if self._refused:
            pictures = "1 picture was" if self._refused == 1 else f"{self._refused} pictures were"
            print(f"{pictures} not shown: {self._reason}", file=sys.stderr)  # noqa: T201

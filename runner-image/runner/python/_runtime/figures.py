"""Shows the figures of matplotlib as pictures, as notebooks do: on show(), and those that are open at the end.

A figure saved to /workspace/out is a file that the caller gets, so it is shown only if the program asks for that.
"""

from __future__ import annotations

import atexit
import os
import sys
from functools import wraps
from importlib import import_module
from types import ModuleType
from typing import Any
from weakref import WeakSet


def show_figures_of(backends: ModuleType, workspace: str) -> None:
    """Show figures from now on, given the module of matplotlib that all backends build upon."""
    gallery = _Gallery(backends.Gcf, os.path.join(workspace, "out"))
    print_figure = backends.FigureCanvasBase.print_figure

    def show(manager: Any) -> None:
        gallery.show(manager.canvas.figure)
        # plt.show() closes, so that the next plot begins a figure of its own; figure.show() does not.
        if sys._getframe(1).f_globals.get("__name__") != "matplotlib.figure":
            backends.Gcf.destroy(manager)

    def save(canvas: Any, file: Any, *args: Any, **options: Any) -> Any:
        printed = print_figure(canvas, file, *args, **options)
        gallery.note_saved(canvas.figure, file)
        return printed

    backends.FigureManagerBase.show = show
    backends.FigureCanvasBase.print_figure = wraps(print_figure)(save)
    # matplotlib closes all figures at the exit, too; what was registered last runs first.
    atexit.register(gallery.close)


class _Gallery:
    def __init__(self, open_figures: Any, kept_folder: str) -> None:
        self._kept_folder = kept_folder
        self._saved: WeakSet[Any] = WeakSet()
        self._kept: WeakSet[Any] = WeakSet()
        self._open_figures = open_figures
        self._full = False
        self._refused = 0
        self._reason = ""

    def note_saved(self, figure: Any, file: Any) -> None:
        """Remember what the caller gets as a file, or may see in a way of the program's own."""
        self._saved.add(figure)
        if isinstance(file, (str, os.PathLike)):
            kept = os.path.abspath(file).startswith(self._kept_folder + os.sep)
            (self._kept.add if kept else self._kept.discard)(figure)

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
            if not (is_empty or figure in self._kept or (emits and figure in self._saved)):
                self.show(figure)
        if self._refused:
            pictures = "1 picture was" if self._refused == 1 else f"{self._refused} pictures were"
            print(f"{pictures} not shown: {self._reason}", file=sys.stderr)  # noqa: T201

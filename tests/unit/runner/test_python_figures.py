"""Figures become pictures, as in a notebook. The package is a small stand-in; the real one is in the runner image."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from textwrap import dedent

import pytest

from tests.unit.client_library.gateway import Gateway, Request, running_gateway, text
from tests.unit.client_library.workspace import Workspace
from tests.unit.runner.supervised import Ended, Supervised

MATPLOTLIB = {
    "matplotlib/__init__.py": "",
    "matplotlib/_pylab_helpers.py": """
        import atexit

        class Gcf:
            figs = {}

            @classmethod
            def get_all_fig_managers(cls):
                return list(cls.figs.values())

            @classmethod
            def destroy(cls, manager):
                cls.figs = {number: each for number, each in cls.figs.items() if each is not manager}

            @classmethod
            def destroy_all(cls):
                cls.figs.clear()

        atexit.register(Gcf.destroy_all)
    """,
    "matplotlib/backend_bases.py": """
        from matplotlib._pylab_helpers import Gcf

        class FigureManagerBase:
            def __init__(self, canvas):
                self.canvas = canvas

            def show(self):
                pass

        class FigureCanvasBase:
            def __init__(self, figure):
                self.figure = figure

            def print_figure(self, file, **options):
                file = open(file, "wb") if isinstance(file, str) else file
                file.write("|".join(self.figure.drawn).encode())
                file.flush()
    """,
    "matplotlib/figure.py": """
        from matplotlib.backend_bases import FigureCanvasBase, FigureManagerBase

        class Figure:
            def __init__(self):
                self.drawn = []
                self.canvas = FigureCanvasBase(self)
                self.canvas.manager = FigureManagerBase(self.canvas)

            def get_children(self):
                return ["background", *self.drawn]

            def savefig(self, file, **options):
                if "broken" in self.drawn:
                    raise ValueError("cannot be drawn")
                self.canvas.print_figure(file, **options)

            def show(self):
                self.canvas.manager.show()
    """,
    "matplotlib/pyplot.py": """
        from matplotlib._pylab_helpers import Gcf
        from matplotlib.figure import Figure

        def figure():
            created = Figure()
            Gcf.figs[len(Gcf.figs) + 1] = created.canvas.manager
            return created

        def plot(what):
            managers = Gcf.get_all_fig_managers()
            (managers[-1].canvas.figure if managers else figure()).drawn.append(what)

        def close(figure):
            Gcf.destroy(figure.canvas.manager)

        def show():
            for manager in Gcf.get_all_fig_managers():
                manager.show()
    """,
}
IMPORT = "import matplotlib.pyplot as plt\n"
FULL = (429, {"code": "limit_exceeded", "message": "At most 10 pictures.", "hint": "Show fewer."})


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with running_gateway() as gateway:
        yield gateway


def run(python: Supervised, gateway: Gateway, code: str) -> Ended:
    Workspace(python.workspace).add_tools()
    python.prepare({path: dedent(source) for path, source in MATPLOTLIB.items()})
    return python.run(IMPORT + dedent(code), environment=gateway.environment)


def shown(python: Supervised, gateway: Gateway, code: str) -> list[str]:
    ended = run(python, gateway, code)
    assert (ended.errors, ended.exit_code) == ("", 0)
    return pictures(gateway)


def pictures(gateway: Gateway) -> list[str]:
    return [b64decode(request.body["data"]).decode() for request in gateway.requests if request.path == "/emit"]


def test_show_shows_what_is_open_and_begins_anew(python: Supervised, gateway: Gateway) -> None:
    code = """
        plt.plot("a"); plt.plot("b")
        plt.show()
        plt.plot("c")
        plt.figure(); plt.plot("d")
        plt.show()
        plt.show()
    """
    assert shown(python, gateway, code) == ["a|b", "c", "d"]


def test_figures_left_open_are_shown_at_the_end(python: Supervised, gateway: Gateway) -> None:
    assert shown(python, gateway, 'plt.plot("a"); plt.figure(); plt.plot("b")') == ["a", "b"]


@pytest.mark.parametrize("ending", ["raise ValueError('v')", "import sys; sys.exit(1)"])
def test_a_program_that_fails_shows_its_figures(python: Supervised, gateway: Gateway, ending: str) -> None:
    assert run(python, gateway, f'plt.plot("a")\n{ending}').exit_code == 1
    assert pictures(gateway) == ["a"]


@pytest.mark.parametrize(
    "program",
    [
        'import asyncio\nawait asyncio.sleep(0)\nplt.plot("a"); plt.show(); plt.plot("b")',
        'import asyncio\nasync def main():\n    plt.plot("a"); plt.show(); plt.plot("b")\nasyncio.run(main())',
    ],
    ids=["top-level await", "asyncio.run"],
)
def test_figures_are_shown_in_async_programs(python: Supervised, gateway: Gateway, program: str) -> None:
    assert shown(python, gateway, program) == ["a", "b"]


def test_a_figure_that_was_saved_and_closed_is_not_shown(python: Supervised, gateway: Gateway) -> None:
    code = "figure = plt.figure(); plt.plot('a'); figure.savefig('a.png'); plt.close(figure)"
    assert shown(python, gateway, code) == []


@pytest.mark.parametrize(
    ("file", "pictures"), [("out/a.png", []), ("out/../a.png", ["a"]), ("a.png", ["a"]), ("output/a.png", ["a"])]
)
def test_a_figure_that_the_caller_gets_as_a_file_is_not_shown_unasked(
    python: Supervised, gateway: Gateway, file: str, pictures: list[str]
) -> None:
    code = f"import os; os.makedirs('output'); figure = plt.figure(); plt.plot('a'); figure.savefig({file!r})"
    assert shown(python, gateway, code) == pictures


def test_a_figure_that_the_caller_gets_as_a_file_is_shown_on_request(python: Supervised, gateway: Gateway) -> None:
    code = "figure = plt.figure(); plt.plot('a'); figure.savefig('out/a.png'); plt.show()"
    assert shown(python, gateway, code) == ["a"]


def test_a_figure_without_anything_in_it_is_not_shown(python: Supervised, gateway: Gateway) -> None:
    assert shown(python, gateway, "plt.figure()") == []


def test_a_figure_that_the_program_showed_itself_is_not_shown_again(python: Supervised, gateway: Gateway) -> None:
    code = """
        from servers.output import emit_image
        first = plt.figure(); plt.plot("a")
        emit_image(first)
        second = plt.figure(); plt.plot("b")
        second.savefig("b.png")
        emit_image("b.png")
        plt.figure(); plt.plot("c")
    """
    assert shown(python, gateway, code) == ["a", "b", "c"]


def test_a_figure_can_be_shown_by_itself_and_goes_on(python: Supervised, gateway: Gateway) -> None:
    code = "figure = plt.figure(); plt.plot('a'); figure.show(); plt.plot('b'); plt.show()"
    assert shown(python, gateway, code) == ["a", "a|b"]


def test_what_is_too_much_is_told_in_one_line(python: Supervised, gateway: Gateway) -> None:
    gateway.answers(text("ok"), FULL)
    ended = run(python, gateway, 'for n in "abcd":\n    plt.plot(n)\n    plt.show()\nplt.plot("e")')
    assert (ended.errors, ended.exit_code) == ("4 pictures were not shown: At most 10 pictures.\n", 0)
    assert pictures(gateway) == ["a", "b"]  # the rest was not even drawn


def test_a_figure_that_cannot_be_drawn_does_not_stop_the_others(python: Supervised, gateway: Gateway) -> None:
    ended = run(python, gateway, 'plt.plot("broken"); plt.show(); plt.plot("b")')
    assert (ended.errors, ended.exit_code) == ("1 picture was not shown: cannot be drawn\n", 0)
    assert pictures(gateway) == ["b"]


def test_without_a_gateway_the_program_is_told(python: Supervised, gateway: Gateway) -> None:
    gateway.address = ""
    ended = run(python, gateway, 'plt.plot("a")')
    assert ended.errors.startswith("1 picture was not shown: Tools can be called only where ")


def test_a_program_that_draws_nothing_loads_nothing_for_it(python: Supervised) -> None:
    ended = python.run("import sys; print(sorted(name for name in sys.modules if 'runtime' in name))")
    assert ended.output == "[]\n"


def test_a_package_without_what_is_watched_for_is_an_ordinary_error(python: Supervised, gateway: Gateway) -> None:
    python.prepare({"matplotlib/__init__.py": ""})
    ended = python.run("import matplotlib.backend_bases")
    assert "ModuleNotFoundError: No module named 'matplotlib.backend_bases'\n" in ended.errors


def test_requests_are_those_of_emit(python: Supervised, gateway: Gateway) -> None:
    run(python, gateway, 'plt.plot("a")')
    assert [(request.path, list(request.body)) for request in gateway.requests] == [("/emit", ["data"])]
    assert all(isinstance(request, Request) for request in gateway.requests)

"""Runs what a Python package calls a command: entry_point.py COMMAND MODULE:ATTRIBUTE ARGUMENTS…"""

import importlib
import operator
import sys


def main() -> object:
    command, target, *arguments = sys.argv[1:]
    module, _, attribute = target.partition(":")
    sys.argv = [command, *arguments]
    return operator.attrgetter(attribute)(importlib.import_module(module))()


if __name__ == "__main__":
    sys.exit(main())  # type: ignore[arg-type]  # a number, None or a text, as in the command that pip would write

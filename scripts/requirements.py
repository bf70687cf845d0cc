"""Prints what pyproject.toml requires: requirements.py [EXTRA…], the daemon's dependencies and those of the extras."""

import sys
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def main(extras: list[str]) -> None:
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    of_extras = [requirement for extra in extras for requirement in project["optional-dependencies"][extra]]
    sys.stdout.writelines(f"{requirement}\n" for requirement in (*project["dependencies"], *of_extras))


if __name__ == "__main__":
    main(sys.argv[1:])

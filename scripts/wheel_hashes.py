"""Prints the pins of reports that pip has made for several platforms, with the hashes of all their wheels."""

import json
import sys
from collections import defaultdict
from pathlib import Path


def main(reports: list[Path]) -> None:
    hashes: dict[str, set[str]] = defaultdict(set)
    for report in reports:
        for wheel in json.loads(report.read_text())["install"]:
            pin = f"{wheel['metadata']['name'].lower()}=={wheel['metadata']['version']}"
            hashes[pin].add(wheel["download_info"]["archive_info"]["hashes"]["sha256"])
    names = [pin.split("==")[0] for pin in hashes]
    if differing := sorted({name for name in names if names.count(name) > 1}):
        raise SystemExit(f"The platforms get different versions of {', '.join(differing)}: pin one in requirements.in.")
    for pin in sorted(hashes):
        sys.stdout.write(" \\\n".join([pin, *(f"    --hash=sha256:{digest}" for digest in sorted(hashes[pin]))]) + "\n")


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])

"""Prints the id that the daemon puts on its sandboxes. Runs in the daemon's container, from standard input."""

import sys
from pathlib import Path

sys.stdout.write(Path("/var/lib/code-executor/instance-id").read_text())

"""Prints the id that the launcher puts on sandboxes. Runs in the launcher's container, from standard input."""

import sys
from pathlib import Path

sys.stdout.write(Path("/run/launcher/owner-id").read_text())

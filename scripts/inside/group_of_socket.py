"""Prints the group of the engine's socket as the launcher's container sees it. Runs there, from standard input."""

import os
import sys

sys.stdout.write(f"{os.stat('/var/run/docker.sock').st_gid}\n")

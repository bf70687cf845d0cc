"""Keeps one network namespace in which sandboxes come and go, one at a time: slot.py PORT

Started with one capability, NET_ADMIN, it closes the namespace and drops the capability. Then it carries connections
from the sandbox to its loopback port over its own leash to the daemon's gateway, until the leash ends.
"""

import os
import sys

# Isolated mode leaves the script's own directory out of the path.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from slotkeeping.main import main

if __name__ == "__main__":
    main(sys.argv[1:])

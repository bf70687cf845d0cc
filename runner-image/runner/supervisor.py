"""PID 1 of a sandbox: supervisor.py LANGUAGE LIFETIME_SECONDS DOOR [WORKSPACE [INTERPRETER]]

DOOR is the name of the socket, as @name, through which the program reaches the gateway.
"""

import os
import sys

# Isolated mode leaves the script's own directory out of the path.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from supervision.main import main

if __name__ == "__main__":
    # The program's processes die with PID 1; an interpreter shutdown would only delay that.
    os._exit(main(sys.argv[1:]))

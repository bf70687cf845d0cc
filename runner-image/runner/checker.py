"""Checks the program of a sandbox before its first tool call: checker.py LANGUAGE WORKSPACE

Prints the mistakes that surely make it fail, as JSON. What is only likely, a matter of style, or not understood, is
left out: a program that is wrongly rejected is worse than a mistake that its run will show.
"""

import os
import sys

# Isolated mode leaves the script's own directory out of the path.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from checking.main import main

if __name__ == "__main__":
    main(*sys.argv[1:])

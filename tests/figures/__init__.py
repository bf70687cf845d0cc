"""Measures every promise and writes docs/figures.md.

Each figure comes with the command that measures it alone and the number of samples; what failed or was left out is
said as well. Each part is kept in .build/figures when it is measured, so that one can be measured anew (`--only chaos`)
and a run that breaks off loses nothing.
"""

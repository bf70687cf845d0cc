"""Kills the daemon at random moments under load and looks at what is left.

After each kill no sandbox may run 15 s later, though the daemon stays away; after the next start nothing of the killed
one may be left 10 s later, in any state, and the journal must tell what became of every execution and of every tool
call that a caller heard of.
"""

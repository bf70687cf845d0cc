"""Takes each hardening option away in turn and sees whether a test notices.

What is asked of the engine and what is compared with its answer are weakened alike, so that the check of the lockdown
itself says nothing and the tests have to notice, most of them from inside the sandbox. The tests are those of the
suite, called one by one until the first fails.
"""

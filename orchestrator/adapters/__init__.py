"""The outside world: the container engine, the journal, the files that hold roles and keys."""

"""Which tools there are, how they are found, and how little of them needs to be told."""

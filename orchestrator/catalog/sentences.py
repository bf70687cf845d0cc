from __future__ import annotations

import re

_END_OF_SENTENCE = re.compile(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)\s|(?<=[。！？])|\n")  # noqa: RUF001 full-width is meant


def split_first_sentence(text: str) -> tuple[str, str]:
    """The first sentence, and what follows it."""
    stripped = text.strip()
    end = _END_OF_SENTENCE.search(stripped)
    return (stripped[: end.start()], stripped[end.start() :]) if end else (stripped, "")

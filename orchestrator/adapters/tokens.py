"""Counts tokens with a real tokenizer (o200k) that ships with its vocabulary and so works offline."""

from __future__ import annotations

from functools import cached_property
from typing import Any

# Encoding time grows faster than length on text without breaks; short pieces keep it linear, at a cost of at most
# one token per piece.
MAX_PIECE_CHARACTERS = 1024


class O200kTokenCounter:
    def count(self, text: str) -> int:
        total = start = 0
        while start < len(text):
            end = start + MAX_PIECE_CHARACTERS
            after_newline = text.rfind("\n", start, end) + 1
            if after_newline > start and end < len(text):
                end = after_newline
            total += len(self._tokenizer.encode(text[start:end]))
            start = end
        return total

    @cached_property
    def _tokenizer(self) -> Any:
        # Importing takes 60 ms and 33 MB: only for who counts.
        from splintr import Tokenizer

        return Tokenizer.from_pretrained("o200k_base")

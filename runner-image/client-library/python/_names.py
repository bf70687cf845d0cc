"""Says which name is there when one is not, and which was probably meant."""

from __future__ import annotations

from collections.abc import Sequence
from types import FrameType


def instead(name: str, there_are: str, names: Sequence[str]) -> str:
    """Return what is there, with the name that is most like the wrong one, to be put behind a complaint."""
    from difflib import get_close_matches

    if not names:
        return "; there is none."
    by_lower = {each.lower(): each for each in names}
    close = get_close_matches(name.lower(), by_lower, n=1)
    meant = f" Did you mean '{by_lower[close[0]]}'?" if close else ""
    return f"; {there_are}: {', '.join(names)}.{meant}"


def missing(asking: FrameType, complaint: str, name: str, there_are: str, names: Sequence[str]) -> Exception:
    """Return the error for an attribute that a package does not have.

    An import would replace the AttributeError by an error of its own, which says nothing of the names that are there.
    """
    is_import = asking.f_code.co_name == "_handle_fromlist"
    return (ImportError if is_import else AttributeError)(f"{complaint} '{name}'{instead(name, there_are, names)}")

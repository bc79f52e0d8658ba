"""How many one may ask for at once."""

from __future__ import annotations

from ..job.envelope import EnvelopeError
from ..sentence import Sentence, shown

__all__ = ["clean_limit"]


def clean_limit(value: object, most: int, field: str = "limit", *, least: int = 1) -> int:
    """``value`` when it is from ``least`` to ``most``; ``EnvelopeError`` otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise EnvelopeError(
            field,
            Sentence(
                "must be from %(least)s to %(most)s, got %(value)s", least=least, most=f"{most:,}", value=shown(value)
            ),
        )
    return value

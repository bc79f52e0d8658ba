"""What is typed into the inputs beside the payload, as text and as values; ``EnvelopeError`` says what is wrong."""

from __future__ import annotations

import json

from django.utils.translation import gettext as _

from ...job.envelope import EnvelopeError, clean_type
from ...job.registry import registry
from ...job.text import safe_text

__all__ = ["known_type", "line_ends", "read_tags", "tag_lines", "whole_number"]


def line_ends(text: str, stored: str) -> str:
    """Text as a browser sends it, with the line ends that it had."""
    plain = text.replace("\r\n", "\n")
    return plain.replace("\n", "\r\n") if "\r\n" in stored else plain


def tag_lines(tags: tuple[str, ...]) -> str:
    """One in a line; as JSON where a tag has a line end of its own, or letters that no page can hold."""
    if any(tag.splitlines() != [tag] or tag.startswith("[") or safe_text(tag) != tag for tag in tags):
        text = json.dumps(list(tags), ensure_ascii=False)
        return text if safe_text(text) == text else json.dumps(list(tags))
    return "\n".join(tags)


def read_tags(text: str) -> list[str]:
    if text.lstrip().startswith("["):
        try:
            found = json.loads(text)
            return list(found) if isinstance(found, list) else []
        except (ValueError, RecursionError):
            raise EnvelopeError("tags", _("must be one in a line, or a JSON list")) from None
    return text.splitlines()


def whole_number(text: str) -> int:
    try:
        return int(text.strip()) if len(text.strip()) < 20 else int("x")
    except ValueError:
        raise EnvelopeError("priority", _("must be a whole number, got %(text)s") % {"text": repr(text[:40])}) from None


def known_type(text: str) -> str:
    key = clean_type(text)
    if registry.get(key) is None:
        hint = registry.nearest_key(key)
        raise EnvelopeError("type", _("%(key)s is not registered here%(hint)s") % {"key": repr(key), "hint": hint})
    return key

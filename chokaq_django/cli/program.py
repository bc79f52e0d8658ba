"""How this command is typed: whatever tells people what to type says it in the same words."""

from __future__ import annotations

import re
import sys
from pathlib import PurePath

__all__ = ["NAME", "as_typed", "manage", "typed"]

NAME = "chokaq"
_NAMED = re.compile(rf"`(?:(?:python )?manage\.py (?=\S)|(?={NAME} ))")


def manage() -> str:
    """What stands before the name of a management command: ``python manage.py``, unless one came by another way."""
    came_by = PurePath(sys.argv[0]).name if sys.argv else ""
    if came_by in ("django-admin", "django-admin.exe"):
        return "django-admin"
    is_module = came_by == "__main__.py" and PurePath(sys.argv[0]).parent.name == "django"
    return "python -m django" if is_module else "python manage.py"


def typed(arguments: str = "", command: str = NAME) -> str:
    """A command, ``chokaq`` unless another is named, with these arguments: to be copied into a shell."""
    return f"{manage()} {command} {arguments}".rstrip()


def as_typed(text: str) -> str:
    """``text`` from elsewhere, which names commands in short and between backticks, with commands to be copied into a
    shell."""
    return _NAMED.sub(f"`{manage()} ", text)

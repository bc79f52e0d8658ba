"""``manage.py chokaq_worker``: ``runworker`` under a name that no other app claims."""

from __future__ import annotations

from .runworker import Command

__all__ = ["Command"]

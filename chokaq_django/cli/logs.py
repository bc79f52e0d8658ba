"""Log lines and a person at a terminal: what the command says itself is not to be read twice."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from .console import is_terminal

__all__ = ["quiet_terminal"]


def _is_no_repetition(record: logging.LogRecord) -> bool:
    return record.levelno > logging.INFO or record.name.partition(".")[0] != "chokaq"


@contextmanager
def quiet_terminal(verbosity: int) -> Iterator[None]:
    """While this lasts, what the job system logs about its own acts reaches files and pipes, but no terminal, where it
    would stand in the midst of tables and progress bars; from verbosity 2 on it does."""
    loggers = (logging.getLogger(), logging.getLogger("chokaq"))
    handlers = [handler for logger in loggers for handler in logger.handlers if is_terminal(_stream(handler))]
    if verbosity > 1:
        handlers = []
    for handler in handlers:
        handler.addFilter(_is_no_repetition)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(_is_no_repetition)


def _stream(handler: logging.Handler) -> object:
    return getattr(handler, "stream", None)

"""Middleware: callables around the handler, outermost first, as in Django's own setting.

A middleware is ``middleware(ctx, call_next)``; it calls ``call_next()`` at most once and returns its result. For async
handlers it may be ``async def`` and awaits ``call_next()``. A plain function can wrap an async handler too: it gets and
passes on the awaitable. An ``async def`` middleware cannot wrap a handler that runs in a thread.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from django.utils.module_loading import import_string

from .context import JobContext
from .definition import is_async_callable

__all__ = ["Middleware", "MiddlewareError", "load_middleware", "wrap", "wrap_async"]

Middleware = Callable[[JobContext, Callable[[], Any]], Any]


class MiddlewareError(ValueError):
    """A middleware path that cannot be loaded or used."""


def load_middleware(paths: Sequence[str]) -> tuple[Middleware, ...]:
    """The callables behind dotted paths. A class is called without arguments and must give a callable object."""
    return tuple(_load(path) for path in paths)


def _load(path: str) -> Middleware:
    try:
        loaded = import_string(path)
        if isinstance(loaded, type):
            loaded = loaded()
    except Exception as error:
        raise MiddlewareError(f"middleware {path!r} cannot be loaded: {type(error).__name__}: {error}") from error
    if not callable(loaded):
        raise MiddlewareError(f"middleware {path!r} is not callable: it must be a function (ctx, call_next)")
    return loaded  # type: ignore[no-any-return]


def wrap(middleware: Sequence[Middleware], handler: Callable[[JobContext], Any]) -> Callable[[JobContext], Any]:
    """``handler(ctx)`` of a sync job inside its middleware. ``MiddlewareError`` for one that is ``async def``."""
    for layer in middleware:
        if is_async_callable(layer):
            raise MiddlewareError(f"middleware {layer!r} is `async def` and cannot wrap a `def` handler; make it sync")
    if not middleware:
        return handler

    def run(ctx: JobContext) -> Any:
        call: Callable[[], Any] = functools.partial(handler, ctx)
        for layer in reversed(middleware):
            call = functools.partial(layer, ctx, call)
        return call()

    return run


def wrap_async(
    middleware: Sequence[Middleware], handler: Callable[[JobContext], Awaitable[Any]]
) -> Callable[[JobContext], Awaitable[Any]]:
    """``handler(ctx)`` of an async job inside its middleware, both kinds of it."""
    if not middleware:
        return handler

    async def run(ctx: JobContext) -> Any:
        call: Callable[[], Any] = functools.partial(handler, ctx)
        for layer in reversed(middleware):
            call = functools.partial(layer, ctx, call)
        result = call()
        # A plain function may have answered for the job instead of passing the awaitable on.
        return await result if isinstance(result, Awaitable) else result

    return run

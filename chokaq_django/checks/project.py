"""Checks of the project: its options, apps, middleware and job types."""

from __future__ import annotations

import difflib
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage
from django.core.management import get_commands

from ..conf import Options, parse_options
from ..conf.rules import SECTIONS
from ..job.annotations import UnsupportedTypeError
from ..job.middleware import MiddlewareError, load_middleware
from ..job.registry import registry

APP = "chokaq_django"


def valid_options() -> Options | None:
    """The options if they are right; when they are not, ``check_options`` says so and the other checks keep quiet."""
    return parse_options(getattr(settings, "CHOKAQ", None))[0]


def check_options(app_configs: object, **kwargs: Any) -> list[CheckMessage]:
    """Everything wrong with the CHOKAQ setting, one message each."""
    problems = parse_options(getattr(settings, "CHOKAQ", None))[1]
    return [
        checks.Error(f"{problem.where} {problem.message}.", hint=problem.hint or None, id="chokaq.E001")
        for problem in problems
    ]


def check_name(app_configs: object, **kwargs: Any) -> list[CheckMessage]:
    """A setting that is called almost like CHOKAQ is read by nobody, and everything would go by the defaults."""
    names = [name for name in dir(settings) if name.isupper() and name != "CHOKAQ"]
    near = difflib.get_close_matches("CHOKAQ", names, n=3, cutoff=0.75)
    apart = [name for name in names if name.partition("_")[0] == "CHOKAQ" and _is_option(name.partition("_")[2])]
    return [
        checks.Warning(
            f"nothing reads the setting {name}.",
            hint="All options are in one dictionary called CHOKAQ: CHOKAQ = {'WORKER': {'CONCURRENCY': 20}}; "
            "docs/reference/options.md lists them.",
            id="chokaq.W012",
        )
        for name in sorted({*near, *apart})
    ]


def _is_option(name: str) -> bool:
    """Whether CHOKAQ_ and ``name`` look like a section or an option written as a setting of its own."""
    return name.partition("_")[0] in SECTIONS or name in SECTIONS


def check_commands(app_configs: object, **kwargs: Any) -> list[CheckMessage]:
    """Channels has a runworker of its own; the first app in INSTALLED_APPS wins."""
    owner = get_commands().get("runworker", APP)
    if owner == APP:
        return []
    return [
        checks.Error(
            f"`manage.py runworker` is the command of {owner!r}, not of {APP!r}.",
            hint=f"Put {APP!r} above {owner!r} in INSTALLED_APPS; ours forwards bare channel names to Channels. "
            "Until then `manage.py chokaq_worker` starts a job worker.",
            id="chokaq.E005",
        )
    ]


def check_middleware(app_configs: object, **kwargs: Any) -> list[CheckMessage]:
    """Every middleware path must lead to a callable."""
    found: list[CheckMessage] = []
    options = valid_options()
    for path in options.middleware if options else ():
        try:
            load_middleware([path])
        except MiddlewareError as error:
            found.append(checks.Error(f"CHOKAQ['MIDDLEWARE']: {error}", id="chokaq.E006"))
    return found


def check_socket(app_configs: object, **kwargs: Any) -> list[CheckMessage]:
    """The Deck's live feed needs an ASGI application; whether that has its route only a browser finds out."""
    if not apps.is_installed("django.contrib.admin") or getattr(settings, "ASGI_APPLICATION", None):
        return []
    return [
        checks.Info(
            "The Deck asks for news every two seconds: without ASGI_APPLICATION there is no socket that tells it.",
            hint="That works. For changes at once, serve the project by an ASGI server, with "
            "chokaq_django.deck.routing.deck_websocket() in its routes: docs/how-to/serve-the-deck.md. "
            "Who is content with polling silences this: SILENCED_SYSTEM_CHECKS = ['chokaq.I001'].",
            id="chokaq.I001",
        )
    ]


def check_types(app_configs: object, **kwargs: Any) -> list[CheckMessage]:
    """Every registered type must have fields that can be stored and come back."""
    found: list[CheckMessage] = []
    for job_type in registry.types():
        if job_type.codec is None:
            continue
        try:
            job_type.codec.compile()
        except UnsupportedTypeError as error:
            found.append(checks.Error(f"job type {job_type.key!r}: {error}", obj=job_type.cls, id="chokaq.E007"))
    return found

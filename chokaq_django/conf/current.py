"""The options that hold in this process: the project's, and what operators have laid over them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from .options import Options
from .overridable import laid_over, locate
from .parsing import parse_option, parse_options

__all__ = [
    "fitting",
    "get_options",
    "options_with",
    "override_options",
    "overrides",
    "project_options",
    "what_is_wrong",
]

_project: Options | None = None
_current: Options | None = None
_overrides: Mapping[str, Any] = MappingProxyType({})


def project_options() -> Options:
    """The options as the project's settings say, read once. ``ImproperlyConfigured`` lists everything wrong with
    them."""
    global _project
    if _project is None:
        options, problems = parse_options(getattr(settings, "CHOKAQ", None))
        if options is None:
            raise ImproperlyConfigured("the CHOKAQ setting is wrong:\n" + "\n".join(f"- {p}" for p in problems))
        _project = options
    return _project


def get_options() -> Options:
    """The options that hold now: the project's, and what operators have set over them, as far as this process knows.

    Nothing is looked up here: see :func:`chokaq_django.reading.settings.follow_settings`.
    """
    return _current or project_options()


def override_options(values: Mapping[str, Any]) -> dict[str, str]:
    """Lay these values of options over the project's, in this process, in the place of those before.

    What is wrong, or contradicts the rest, is left out: its name -> why.
    """
    global _current, _overrides
    kept, refused = fitting(values)
    _overrides = MappingProxyType(kept)
    _current = options_with(kept) if kept else None
    return refused


def overrides() -> Mapping[str, Any]:
    """What is laid over the project's options in this process: name -> value."""
    return _overrides


def options_with(values: Mapping[str, Any]) -> Options:
    """The options if these values, of which :func:`fitting` says that they can, lay over the project's."""
    options, problems = parse_options(laid_over(getattr(settings, "CHOKAQ", None), values))
    if options is None:
        raise ImproperlyConfigured("; ".join(map(str, problems)))
    return options


def fitting(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Which of these values can lie over the project's options together, and why the others cannot."""
    # One by one first: with all of them at once, each that is wrong would take a look at all the others.
    refused = {name: wrong for name, value in values.items() if (wrong := _wrong_by_itself(name, value))}
    kept = {name: value for name, value in values.items() if name not in refused}
    while problems := what_is_wrong(kept):
        suspects = [name for name in kept if locate(name).kind != "rules"]  # rules contradict nothing
        without = {name: what_is_wrong({other: kept[other] for other in kept if other != name}) for name in suspects}
        # Those without which something is right; none when it is the project's own settings that are wrong.
        worst = [name for name, rest in without.items() if len(rest) < len(problems)]
        if not worst:
            return {}, refused | dict.fromkeys(kept, "; ".join(problems))
        refused[worst[0]] = "; ".join(problem for problem in problems if problem not in without[worst[0]])
        del kept[worst[0]]
    return kept, refused


def _wrong_by_itself(name: str, value: object) -> str:
    """Why this value of an option can lie over no settings; empty when it can."""
    try:
        place = locate(name)
    except ValueError as error:
        return str(error)
    given = value if place.entry is None else {place.entry: value}
    problems = parse_option(place.section, place.option, given)
    return "; ".join(f"{problem.path} {problem.message}" for problem in problems)


def what_is_wrong(values: Mapping[str, Any]) -> list[str]:
    """What would be wrong with the project's settings if these values, of options that can be overridden, lay over
    them."""
    problems = parse_options(laid_over(getattr(settings, "CHOKAQ", None), values))[1]
    return [f"{problem.path} {problem.message}" for problem in problems]


def _forget(*, setting: str, **kwargs: object) -> None:
    global _project, _current, _overrides
    if setting == "CHOKAQ":
        _project = _current = None
        _overrides = MappingProxyType({})


setting_changed.connect(_forget)

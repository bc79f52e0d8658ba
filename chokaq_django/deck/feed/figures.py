"""Figures of all queues together, and of each."""

from __future__ import annotations

from ...conf import get_options
from ...reading.queues import QueueFigures
from ...reading.recent import SPAN, Outcomes
from .look import Look
from .values import Section, instant, keyed

__all__ = ["queue", "queues", "tiles"]

MOST_QUEUES = 300
_RATES = {"1m": 60, "5m": 300}


def _figure(value: int, capped: bool = False, how: str = "exact") -> Section:
    return {"value": value, "capped": capped, "how": how}


def tiles(look: Look) -> Section:
    queues = look.queues.values()
    capped = any(figures.capped for figures in queues)
    lately = {name: look.recent.whole(seconds) for name, seconds in _RATES.items()}
    return {
        "as_of": instant(look.counted_at),
        "pending": _figure(sum(figures.pending for figures in queues), capped),
        "scheduled": _figure(sum(figures.scheduled for figures in queues), capped),
        "buffered": _figure(sum(figures.fetched for figures in queues)),
        "processing": _figure(sum(figures.processing for figures in queues)),
        "succeeded": _figure(look.recent.totals().done, how="counter"),
        "failed": _figure(look.dead, how="counter"),
        "rates": {name: _rate(outcomes, _RATES[name]) for name, outcomes in lately.items()},
        "spark": {
            "span": SPAN,
            "until": look.recent.until,
            "done": look.recent.line("done"),
            "dead": look.recent.line("dead"),
        },
    }


def _rate(outcomes: Outcomes, seconds: int) -> Section:
    return {
        "done_per_second": round(outcomes.done / seconds, 2),
        "done": outcomes.done,
        "dead": outcomes.dead,
        "retried": outcomes.retried,
        "failure_share": round(outcomes.failure_share, 4),
    }


def queues(look: Look) -> Section:
    figures = list(look.queues.values())
    if len(figures) > MOST_QUEUES:  # those that matter
        figures = sorted(figures, key=lambda one: (-one.lag(look.now), -one.pending, one.name))[:MOST_QUEUES]
    rows = {one.name: _row(one, look) for one in sorted(figures, key=lambda one: one.name)}
    return {**keyed(look, rows, len(look.queues) - len(rows)), "as_of": instant(look.counted_at)}


def _row(figures: QueueFigures, look: Look) -> Section:
    lately = look.lately.get(figures.name, Outcomes())
    rate = lately.done / 60
    wait, lag = lately.mean_wait, figures.lag(look.now)
    window = figures.window
    return {
        "name": figures.name,
        "state": _state(figures),
        "pending": figures.pending,
        "due": figures.due,
        "scheduled": figures.scheduled,
        "fetched": figures.fetched,
        "processing": figures.processing,
        "capped": figures.capped,
        "lag_max": round(lag, 1),
        "lag_avg": None if wait is None else round(wait, 2),
        "lag_level": _level(lag),
        "per_second": round(rate, 2),
        "workers": sum(worker.takes(figures.name) for worker in look.workers),
        "max_workers": figures.max_workers,
        "execution_timeout": figures.execution_timeout,
        "zombie_timeout": figures.zombie_timeout,
        "window": None
        if window is None
        else {
            "start": f"{window[0]:%H:%M}",
            "end": f"{window[1]:%H:%M}",
            "zone": window[2],
            "open": figures.in_window,
        },
        "eta_seconds": round(figures.due / rate) if rate and figures.due and figures.is_open else None,
    }


def _state(figures: QueueFigures) -> str:
    """A stable name; being hidden or paused says more than being outside its window."""
    if figures.is_paused or not figures.is_active:
        return figures.state
    return "open" if figures.in_window else "closed"


def _level(lag: float) -> str:
    deck = get_options().deck
    if lag >= deck.lag_critical:
        return "critical"
    return "warning" if lag >= deck.lag_warning else "ok"


def queue(name: str, look: Look) -> Section:
    row = _row(look.queues.get(name) or QueueFigures(name), look)
    return {"as_of": instant(look.counted_at), **row}

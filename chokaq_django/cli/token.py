"""``chokaq token``."""

from __future__ import annotations

import argparse
import datetime as dt

from django.contrib.auth import get_user_model

from ..api.tokens import LONGEST, issue
from ..job.text import safe_text
from .arguments import act_arguments, actor, positive
from .console import OK, usage
from .subcommand import Call, Subcommand
from .text import one_line

__all__ = ["TOKEN"]

DAYS = 30


def _token(call: Call) -> int:
    options = call.options
    model = get_user_model()
    name = options["user"].strip()
    # What no column can hold is nobody's name; some drivers refuse to ask for it.
    known = safe_text(name) == name
    user = model._default_manager.filter(**{model.USERNAME_FIELD: name}).first() if known else None
    if user is None:
        usage(f"There is no user {one_line(name, 60)!r}.")
    if not (user.is_active and user.is_staff and user.has_perm("chokaq.view_deck")):
        usage("A token is for an active member of the staff with the permission chokaq.view_deck; others are refused.")
    if options["days"] > LONGEST.days:
        usage(f"--days {options['days']}: a token is valid for {LONGEST.days} days at most.")
    valid = dt.timedelta(days=options["days"])
    token = issue(user, valid, by=actor(options), reason=options["reason"])
    call.console.document({"user": user.get_username(), "days": options["days"], "token": token})
    if not call.console.json:
        call.console.line(token)
    return OK


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("user", metavar="USER", help="The name of the user whose token it is.")
    parser.add_argument(
        "--days", type=positive, default=DAYS, metavar="N", help=f"How long it is valid (default: {DAYS})."
    )
    act_arguments(parser)


TOKEN = Subcommand(
    "token",
    "A token for the JSON API, which a program sends.",
    _token,
    description="It is printed once and stored nowhere. It ends with its days, and when the password of its user "
    "changes. What it may do is what its user may do then: give a program a user of its own.",
    examples=[
        ("token deploy --days 90", "for the user 'deploy'"),
        ("token deploy --days 1 --reason 'ticket 42'", "for a day, with a word for the audit"),
    ],
    adds=_arguments,
    exits="0 it is printed   2 unknown user, one whom the API refuses, or too many days",
)

"""Tokens for programs: signed, not stored.

A token says whose it is and until when, and is signed with ``SECRET_KEY``. It ends when its time is over, when the
password of its user changes (an unusable one too, which ``set_unusable_password`` makes anew), and when the user is
deactivated. What it may do is what its user may do at that moment: give a program a user of its own.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from typing import Any

from django.contrib.auth import get_user_model
from django.core import signing
from django.core.exceptions import ValidationError
from django.utils.crypto import constant_time_compare

from ..conf import get_options
from ..control.acts import act_transaction, audit

__all__ = ["LONGEST", "issue", "user_of"]

PREFIX = "chokaq_"
"""Makes tokens known to those who look for leaked secrets."""
SALT = "chokaq_django.api.tokens"
LONGEST = dt.timedelta(days=366)


def issue(user: Any, valid: dt.timedelta, *, by: str, reason: str = "") -> str:
    """A token for ``user``, with its audit entry. It cannot be shown again."""
    if not dt.timedelta(0) < valid <= LONGEST:
        raise ValueError(f"a token is valid for at most {LONGEST.days} days")
    until = dt.datetime.now(dt.UTC) + valid
    alias = get_options().database
    with act_transaction(alias):
        audit(alias, "issue_token", {user.get_username()[:255]: {"until": until.isoformat()}}, by, reason)
    said = {"user": str(user.pk), "until": int(until.timestamp()), "seal": _seal(user.get_session_auth_hash())}
    return PREFIX + _signer().sign_object(said)


def user_of(token: str) -> Any | None:
    """The user whose token this is; None for one that is no longer, or never was, good."""
    try:
        said = _signer().unsign_object(token.removeprefix(PREFIX))
        pk, until, seal = said["user"], said["until"], said["seal"]
    except (signing.BadSignature, ValueError, KeyError, TypeError):
        return None
    if not token.startswith(PREFIX) or dt.datetime.now(dt.UTC).timestamp() >= until:
        return None
    model = get_user_model()
    try:
        user = model._default_manager.filter(pk=model._meta.pk.to_python(pk)).first()
    except (ValueError, TypeError, ValidationError):
        return None
    if user is None:
        return None
    hashes = (user.get_session_auth_hash(), *user.get_session_auth_fallback_hash())
    return user if any(constant_time_compare(seal, _seal(each)) for each in hashes) else None


def _signer() -> signing.Signer:
    return signing.Signer(salt=SALT, sep=".")


def _seal(auth_hash: str) -> str:
    """Changes with the password."""
    return hashlib.sha256(f"{SALT}:{auth_hash}".encode()).hexdigest()[:32]

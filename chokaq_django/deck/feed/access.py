"""Who may look: sessions, users and permissions, of all sockets of a process by a few statements."""

from __future__ import annotations

import importlib
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user_model, load_backend
from django.contrib.auth.backends import AllowAllUsersModelBackend, ModelBackend
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.contrib.sessions.backends.signed_cookies import SessionStore as CookieStore
from django.utils import timezone
from django.utils.crypto import constant_time_compare

__all__ = ["FORBIDDEN", "PERMISSIONS", "SIGNED_OUT", "Access", "knows_who_left", "may_look", "of_user"]

SIGNED_OUT, FORBIDDEN = 4401, 4403
"""Close codes of a socket: the session has ended; the user may not look."""
PERMISSIONS = ("view_deck", "operate", "edit_payload", "resurrect", "cancel", "purge", "view_payload")


@dataclass(frozen=True, slots=True)
class Access:
    """What somebody may do, by the names of the permissions in the app ``chokaq``; ``code``: why not even look."""

    permissions: frozenset[str] = frozenset()
    code: int | None = None

    @property
    def is_masked(self) -> bool:
        """Whether what jobs wrote is kept from them."""
        return "view_payload" not in self.permissions


def knows_who_left() -> bool:
    """Whether the server learns that somebody has signed out. With sessions that are nothing but a cookie it does not:
    an open socket would go on with the one that it came with."""
    return not issubclass(_store(), CookieStore)


def of_user(user: Any) -> Access:
    """What a user who is signed in may do now."""
    if not (getattr(user, "is_active", False) and getattr(user, "is_staff", False)):
        return Access(code=FORBIDDEN if getattr(user, "is_authenticated", False) else SIGNED_OUT)
    return _access({name for name in PERMISSIONS if user.has_perm(f"chokaq.{name}")})


def may_look(keys: Collection[str]) -> dict[str, Access]:
    """For each session key: what its user may do now. As many statements for many as for one, unless the project has
    sessions elsewhere than in the database, or authentication backends of its own."""
    found = dict.fromkeys(keys, Access(code=SIGNED_OUT))
    sessions = _sessions(set(keys))
    users = _users({(data[BACKEND_SESSION_KEY], data[SESSION_KEY]) for data in sessions.values()})
    owners: dict[str, Any] = {}
    for key, data in sessions.items():
        user = users.get((data[BACKEND_SESSION_KEY], data[SESSION_KEY]))
        if user is not None and _is_verified(data, user):
            owners[key] = user
    allowed = _permissions(owners.values())
    for key, user in owners.items():
        staff = getattr(user, "is_active", False) and getattr(user, "is_staff", False)
        found[key] = _access(allowed[user.pk]) if staff else Access(code=FORBIDDEN)
    return found


def _access(permissions: Iterable[str]) -> Access:
    allowed = frozenset(permissions)
    return Access(allowed) if "view_deck" in allowed else Access(code=FORBIDDEN)


def _sessions(keys: set[str]) -> dict[str, dict[str, Any]]:
    """What is in the sessions in which somebody is signed in."""
    store = _store()
    if issubclass(store, DatabaseStore):  # with a cache before it, or not: logging out deletes the row
        rows = store.get_model_class()._default_manager.filter(session_key__in=keys, expire_date__gt=timezone.now())
        found = {row.session_key: store(row.session_key).decode(row.session_data) for row in rows}
    else:
        found = {key: store(key).load() for key in keys}
    return {key: data for key, data in found.items() if SESSION_KEY in data and BACKEND_SESSION_KEY in data}


def _store() -> Any:
    return importlib.import_module(settings.SESSION_ENGINE).SessionStore


def _users(wanted: set[tuple[str, str]]) -> dict[tuple[str, str], Any]:
    """Users by the path of the backend that signed them in and their id, as ``django.contrib.auth.get_user`` does."""
    by_backend: dict[str, set[str]] = defaultdict(set)
    for path, pk in wanted:
        by_backend[path].add(pk)
    found: dict[tuple[str, str], Any] = {}
    for path, pks in by_backend.items():
        if path not in settings.AUTHENTICATION_BACKENDS:
            continue
        backend, key = load_backend(path), get_user_model()._meta.pk
        if isinstance(backend, ModelBackend) and type(backend).get_user is ModelBackend.get_user:
            ids = {pk: key.to_python(pk) for pk in pks}
            users = get_user_model()._default_manager.in_bulk(list(ids.values()))
            can = {pk: users.get(number) for pk, number in ids.items()}
            found |= {(path, pk): user for pk, user in can.items() if user and backend.user_can_authenticate(user)}
        else:
            found |= {(path, pk): user for pk in pks if (user := backend.get_user(key.to_python(pk))) is not None}
    return found


def _is_verified(data: dict[str, Any], user: Any) -> bool:
    """Whether the password is still the one with which the session began."""
    if not hasattr(user, "get_session_auth_hash"):
        return True
    said = data.get(HASH_SESSION_KEY) or ""
    hashes = [user.get_session_auth_hash(), *user.get_session_auth_fallback_hash()]
    return any(constant_time_compare(said, one) for one in hashes)


def _permissions(users: Iterable[Any]) -> dict[Any, set[str]]:
    """The permissions of each user, by primary key."""
    found: dict[Any, set[str]] = defaultdict(set)
    asked = []
    for user in {user.pk: user for user in users}.values():
        if getattr(user, "is_superuser", False) and user.is_active:
            found[user.pk] = set(PERMISSIONS)
        else:
            asked.append(user)
    if not asked:
        return found
    if not _by_tables():
        for user in asked:
            found[user.pk] = {name for name in PERMISSIONS if user.has_perm(f"chokaq.{name}")}
        return found
    rows = get_user_model()._default_manager.filter(pk__in=[user.pk for user in asked], is_active=True)
    for way in ("user_permissions", "groups__permissions"):
        wanted = {f"{way}__content_type__app_label": "chokaq", f"{way}__codename__in": PERMISSIONS}
        for pk, name in rows.filter(**wanted).values_list("pk", f"{way}__codename"):
            found[pk].add(name)
    return found


def _by_tables() -> bool:
    """Whether Django's own tables of permissions are all there is to ask."""
    plain = (ModelBackend, AllowAllUsersModelBackend)
    fields = {field.name for field in get_user_model()._meta.get_fields()}
    return {"user_permissions", "groups"} <= fields and all(
        type(load_backend(path)) in plain for path in settings.AUTHENTICATION_BACKENDS
    )

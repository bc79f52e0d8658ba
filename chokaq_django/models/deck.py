"""The Deck's place in admin: ``admin/chokaq/deck/``."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from .fleet import Worker


class Deck(Worker):
    """No table: the entry under which admin lists the Deck, and which gives its pages their address."""

    class Meta:
        proxy = True
        default_permissions = ()
        verbose_name = _("deck")
        verbose_name_plural = _("deck")

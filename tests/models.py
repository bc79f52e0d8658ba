"""A table that jobs of the tests write to. Without migrations: the test database gets it from ``syncdb``."""

from __future__ import annotations

from django.db import models


class Effect(models.Model):
    """One execution's mark. There is no unique constraint on purpose: a job whose effect came twice would show."""

    job = models.CharField(max_length=26, db_index=True)
    name = models.CharField(max_length=100)
    attempt = models.IntegerField()

    def __str__(self) -> str:
        return f"{self.name} by {self.job}"

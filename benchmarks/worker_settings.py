"""Settings of ``worker.py``: the database and the options of the example project, and nothing of the web."""

from __future__ import annotations

import environ

from example_project.databases import database_from_url
from example_project.options import options_from_env

env = environ.Env()

SECRET_KEY = "bench"  # noqa: S105 - no web
USE_TZ = True
INSTALLED_APPS = ["chokaq_django", "benchmarks.worker_jobs"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {"default": database_from_url(env.str("DATABASE_URL"))}
CHOKAQ = options_from_env(env)

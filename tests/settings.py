"""Settings of the test suite. ``DATABASE_URL`` chooses the engine; without it, a SQLite file of this process's own.

The database is always a file or a server: worker processes and threads must see what a test wrote, and SQLite's shared
in-memory database ignores lock time-outs.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import environ

from example_project.databases import database_from_url

BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = BASE_DIR / "var"
VAR_DIR.mkdir(exist_ok=True)

env = environ.Env()

_database = database_from_url(env.str("DATABASE_URL", f"sqlite:///{VAR_DIR}/tests-{os.getpid()}.sqlite3"))
if _database["ENGINE"].endswith("sqlite3"):
    _file = Path(_database["NAME"])
    _database["TEST"] = {"NAME": str(_file.with_name(f"test_{_file.name}"))}
DATABASES = {"default": _database}

SECRET_KEY = "only for tests"  # noqa: S105 - not a secret
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "example_project.urls"
ASGI_APPLICATION = "example_project.asgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
STATIC_URL = "static/"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

# "tests" is an app so that workers find its jobs.py by autodiscovery, as they do in a real project.
INSTALLED_APPS = [
    "chokaq_django",
    "channels",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "example_project.shop",
    "tests",
]

MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# Small enough that a test sees a whole life in seconds, large enough for a busy machine with two cores.
CHOKAQ: dict[str, Any] = {
    "WORKER": {
        "POLL_INTERVAL": 0.2,
        "IDLE_POLL_INTERVAL": 0.5,
        "SHUTDOWN_GRACE": 5,
        "CANCEL_GRACE": 1,
    },
    "EXECUTION": {"TIMEOUT": 30, "HEARTBEAT_MIN": 0.4, "HEARTBEAT_MAX": 0.8},
    "RETRY": {"BASE_DELAY": 0.1, "MAX_DELAY": 2, "JITTER": 0.05},
    "RECOVERY": {"WORKER_TIMEOUT": 3, "FETCHED_TIMEOUT": 5, "ZOMBIE_TIMEOUT": 5, "SCAN_INTERVAL": 0.5},
}

# A worker process that a test starts gets the test's own options: sections of CHOKAQ as JSON, merged over the above.
for _section, _values in json.loads(env.str("CHOKAQ_TEST_OPTIONS", "{}")).items():
    CHOKAQ[_section] = {**CHOKAQ.get(_section, {}), **_values} if isinstance(_values, dict) else _values

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "loggers": {"chokaq": {"handlers": ["console"], "level": env.str("CHOKAQ_LOG_LEVEL", "WARNING")}},
}

"""Settings of the contender: the database by BENCH_DB, async jobs at once by BENCH_AT_ONCE, the rest at its default."""

import os

import settings_env

SECRET_KEY = "bench"  # noqa: S105 - no web
DEBUG = False
USE_TZ = True
INSTALLED_APPS = ["bench_jobs", "chokaq_django"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
CHOKAQ = {"WORKER": {"ASYNC_CONCURRENCY": int(os.environ.get("BENCH_AT_ONCE", "100"))}}
if os.environ.get("BENCH_DB") == "sqlite":
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": settings_env.DATA / "chokaq.sqlite3",
            "CONN_MAX_AGE": None,
            "OPTIONS": {
                "transaction_mode": "IMMEDIATE",
                "timeout": 20,
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
            },
        }
    }
elif os.environ.get("BENCH_DB") == "mariadb":
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.mysql",
            "NAME": settings_env.MY_DB,
            "USER": settings_env.MY_USER,
            "PASSWORD": settings_env.MY_PASSWORD,
            "HOST": settings_env.MY_HOST,
            "CONN_MAX_AGE": None,
        }
    }
else:
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": settings_env.PG_DB,
            "USER": settings_env.PG_USER,
            "HOST": settings_env.PG_HOST,
            "PORT": settings_env.PG_PORT,
            "CONN_MAX_AGE": None,
        }
    }

"""Settings of the test suite: the example project's, on a database of its own and with timings for tests.

``DATABASE_URL`` chooses the engine; without it, a SQLite file of this process's own. The database is always a file or a
server: worker processes and threads must see what a test wrote, and SQLite's shared in-memory database ignores lock
time-outs.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from example_project.databases import database_from_url
from example_project.worker_settings import *  # noqa: F403 - the same settings, with what follows changed
from example_project.worker_settings import INSTALLED_APPS, VAR_DIR, env

_database = database_from_url(env.str("DATABASE_URL", f"sqlite:///{VAR_DIR}/tests-{os.getpid()}.sqlite3"))
if _database["ENGINE"].endswith("sqlite3"):
    _file = Path(_database["NAME"])
    _database["TEST"] = {"NAME": str(_file.with_name(f"test_{_file.name}"))}
elif _database["ENGINE"].endswith("mysql"):
    _database["TEST"] = {"CHARSET": "utf8mb4"}  # the server's default may be latin1
elif _database["ENGINE"] == "mssql" and "CHOKAQ_TEST_OPTIONS" not in os.environ:
    # A setting of mssql-django. Tests end connections, and a pool would hand them out again. Processes that tests start
    # have pools, as a project's have unless it says otherwise.
    DATABASE_CONNECTION_POOLING = False
DATABASES = {"default": _database}

# "tests" is an app so that workers find its jobs.py by autodiscovery, as they do in a real project.
INSTALLED_APPS = [*INSTALLED_APPS, "tests"]

SECRET_KEY = "only for tests"
ALLOWED_HOSTS = ["*"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

# Small enough that a test sees a whole life in seconds, large enough for a busy machine with two cores.
_OPTIONS: dict[str, Any] = {
    "WORKER": {
        "POLL_INTERVAL": 0.2,
        "IDLE_POLL_INTERVAL": 0.5,
        "SHUTDOWN_GRACE": 5,
        "CANCEL_GRACE": 1,
    },
    "EXECUTION": {"TIMEOUT": 30, "HEARTBEAT_MIN": 0.4, "HEARTBEAT_MAX": 0.8},
    "RETRY": {"BASE_DELAY": 0.1, "MAX_DELAY": 2, "JITTER": 0.05},
    # A test that waits for a death says when somebody is dead: elsewhere nobody is because the machine is busy.
    "RECOVERY": {"WORKER_TIMEOUT": 12, "FETCHED_TIMEOUT": 60, "ZOMBIE_TIMEOUT": 60, "SCAN_INTERVAL": 0.5},
}

# A worker process that a test starts gets the test's own options: sections of CHOKAQ as JSON, merged over the above.
for _section, _values in json.loads(env.str("CHOKAQ_TEST_OPTIONS", "{}")).items():
    _OPTIONS[_section] = {**_OPTIONS.get(_section, {}), **_values} if isinstance(_values, dict) else _values
CHOKAQ = _OPTIONS

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "loggers": {"chokaq": {"handlers": ["console"], "level": env.str("CHOKAQ_LOG_LEVEL", "WARNING")}},
}

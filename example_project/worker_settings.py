"""Settings of a worker process: the web's, without the web server's app, which alone costs some 25 MB."""

from __future__ import annotations

from .settings import *  # noqa: F403 - these are the same settings
from .settings import INSTALLED_APPS as _WEB_APPS

INSTALLED_APPS = [app for app in _WEB_APPS if app != "daphne"]

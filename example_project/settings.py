"""Settings of the example shop, all from the environment (django-environ). Nothing has to be set.

=====================  ===================================================================================
``DATABASE_URL``       the engine: ``sqlite:///path`` (default: ``var/demo.sqlite3``), ``postgres://...``,
                       ``mysql://...`` (MariaDB too), ``mssql://...``; see ``example_project/databases.py``
``SECRET_KEY``         default: made once and kept in ``var/secret-key``
``DEBUG``              default off
``ALLOWED_HOSTS``      comma separated, default this machine
``CSRF_TRUSTED_ORIGINS``  comma separated, for a proxy that ends TLS
``EMAIL_DIR``          where the file e-mail backend writes, default ``var/emails``
``REDIS_URL``          a channel layer on Redis (needs the ``redis`` extra); none by default
``LOG_LEVEL``          default ``INFO``
``CHOKAQ_...``         every option of the job system: see ``example_project/options.py``
=====================  ===================================================================================
"""

from __future__ import annotations

from pathlib import Path

import django
import environ
from django.core.management.utils import get_random_secret_key

from .databases import database_from_url
from .options import options_from_env

BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = BASE_DIR / "var"
VAR_DIR.mkdir(exist_ok=True)

env = environ.Env()


def _kept_secret_key() -> str:
    """A random key that stays the same from one start to the next, and between the processes of one start."""
    path = VAR_DIR / "secret-key"
    try:
        with path.open("x") as file:
            file.write(get_random_secret_key())
        path.chmod(0o600)
    except FileExistsError:
        pass
    return path.read_text()


SECRET_KEY = env.str("SECRET_KEY", "") or _kept_secret_key()
DEBUG = env.bool("DEBUG", False)
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])

DATABASES = {"default": database_from_url(env.str("DATABASE_URL", "") or f"sqlite:///{VAR_DIR}/demo.sqlite3")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# The order matters twice: daphne's runserver must come before staticfiles', and our runworker before channels'.
INSTALLED_APPS = [
    "daphne",
    "chokaq_django",
    "channels",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "example_project.shop",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "example_project.csp.ContentSecurityPolicyMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",  # the language of whoever looks
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
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

ROOT_URLCONF = "example_project.urls"
ASGI_APPLICATION = "example_project.asgi.application"
STATIC_URL = "static/"
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("de", "Deutsch")]
USE_TZ = True
TIME_ZONE = env.str("TIME_ZONE", "UTC")

if env.str("REDIS_URL", ""):
    CHANNEL_LAYERS = {
        "default": {
            "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
            "CONFIG": {"hosts": [env.str("REDIS_URL")]},
        },
    }

# Order confirmations become files, one e-mail each: nothing leaves the machine.
EMAIL_DIR = Path(env.str("EMAIL_DIR", str(VAR_DIR / "emails")))
_FILE_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
if django.VERSION >= (6, 1):
    MAILERS = {"default": {"BACKEND": _FILE_BACKEND, "OPTIONS": {"file_path": str(EMAIL_DIR)}}}
else:
    EMAIL_BACKEND = _FILE_BACKEND
    EMAIL_FILE_PATH = str(EMAIL_DIR)

CHOKAQ = options_from_env(env)

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(asctime)s %(levelname)-7s %(name)s %(message)s", "datefmt": "%H:%M:%S"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["console"], "level": env.str("LOG_LEVEL", "INFO")},
    # A refused payment is an answer, not trouble.
    "loggers": {"django.request": {"level": "ERROR"}},
}

"""chokaq-django as a contender in the side-by-side harness: see ../README.md."""

import os
import sys
from pathlib import Path

NAME = "chokaq-django (PostgreSQL, SQLite, MariaDB)"
PACKAGES = ["chokaq-django", "Django", "psycopg", "mysqlclient"]
BROKERS = ["postgres", "mariadb"]
DURABILITY = (
    "PG: synchronous_commit on, one durable insert per enqueue, start and outcome each in a durable commit (grouped). "
    "SQLite WAL, synchronous FULL: fsync per commit. MariaDB innodb_flush_log_at_trx_commit 1: fsync per commit"
)
NOTIFY = "PG: LISTEN/NOTIFY; SQLite: PRAGMA data_version every 5 ms under traffic; MariaDB: polls from 50 ms on"
_PG, _LITE, _MARIA = {"BENCH_DB": "pg"}, {"BENCH_DB": "sqlite"}, {"BENCH_DB": "mariadb"}
VARIANTS = {
    "pg-threads": {"settings": "one process, 10 threads (io: 50)", "env": _PG, "enqueue_key": "pg", "scale": 4},
    "pg-threads-2p": {
        "settings": "two processes, 10 threads each (io: 25 each)", "env": _PG, "enqueue_key": "pg", "scale": 4,
        "no_latency": True,
    },
    "pg-async": {
        "settings": "one process, async handlers, up to 100 (io: 50)", "env": {**_PG, "BENCH_ASYNC": "1"},
        "enqueue_key": "pg", "scale": 4, "no_latency": True,
    },
    "sqlite-threads": {
        "settings": "one process, 10 threads (io: 50), WAL FULL", "env": _LITE, "enqueue_key": "sqlite", "scale": 4,
    },
    "sqlite-threads-2p": {
        "settings": "two processes, 10 threads each, WAL FULL", "env": _LITE, "enqueue_key": "sqlite", "scale": 4,
        "no_latency": True,
    },
    "mariadb-threads": {
        "settings": "one process, 10 threads (io: 50)", "env": _MARIA, "enqueue_key": "mariadb", "scale": 4,
    },
    "mariadb-threads-2p": {
        "settings": "two processes, 10 threads each", "env": _MARIA, "enqueue_key": "mariadb", "scale": 4,
        "no_latency": True,
    },
}  # fmt: skip
HERE = Path(__file__).resolve().parent


def _django():
    os.environ["DJANGO_SETTINGS_MODULE"] = "contender_settings"
    import django

    django.setup()


def reset():
    import settings_env

    if os.environ.get("BENCH_DB") == "sqlite":
        for file in settings_env.DATA.glob("chokaq.sqlite3*"):
            file.unlink()
    elif os.environ.get("BENCH_DB") == "mariadb":
        _mariadb_reset()
    else:
        settings_env.pg_reset()
    _django()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def _mariadb_reset():
    """A fresh, empty database."""
    import MySQLdb
    import settings_env

    connection = MySQLdb.connect(
        host=settings_env.MY_HOST, user=settings_env.MY_USER, password=settings_env.MY_PASSWORD
    )
    with connection, connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {settings_env.MY_DB}")
        cursor.execute(f"CREATE DATABASE {settings_env.MY_DB} CHARACTER SET utf8mb4")


def setup():
    global jobs_of
    _django()
    from bench_jobs.jobs import jobs_of


def send(kind, payload):
    from chokaq_django import enqueue

    enqueue(jobs_of[kind](**payload))


BULK = "enqueue_many"


def send_bulk(kind, payloads):
    from chokaq_django import enqueue_many

    cls = jobs_of[kind]
    enqueue_many(cls(**payload) for payload in payloads)


def remaining():
    _django()
    from chokaq_django.models import JobHot

    return JobHot.objects.count


def worker(mode, variant):
    import settings_env

    processes = 2 if variant.endswith("2p") else 1
    threads = 50 // processes if mode == "io" else 10
    command = [
        sys.executable, "-m", "django", "runworker", "--concurrency", str(threads), "--processes", str(processes),
        "--verbosity", "0",
    ]  # fmt: skip
    env = {"DJANGO_SETTINGS_MODULE": "contender_settings", "PYTHONPATH": f"{settings_env.HERE}:{HERE}"}
    if mode == "io":
        env["BENCH_AT_ONCE"] = str(50 // processes)
    return [(command, env)]

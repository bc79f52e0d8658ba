"""MariaDB and MySQL by PyMySQL, the driver without a compiler: the parts of this suite that meet the driver most."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest
from django.db import connection

from ..helpers import ROOT, database_url

pytestmark = [
    pytest.mark.slow,
    pytest.mark.django_db,
    pytest.mark.skipif(connection.vendor != "mysql", reason="drivers of MariaDB and MySQL"),
    pytest.mark.skipif(importlib.util.find_spec("pymysql") is None, reason="PyMySQL is not installed"),
    pytest.mark.skipif("pymysql" in sys.modules, reason="this whole run is with PyMySQL"),
]

FILES = [
    "test_connections.py", "test_enqueue.py", "test_hurry.py", "test_mysql_charset.py", "test_mysql_connections.py",
    "test_mysql_isolation.py", "test_text.py", "test_transactions.py",
]  # fmt: skip
RUN = "import sys, pymysql, pytest; pymysql.install_as_MySQLdb(); sys.exit(pytest.main(sys.argv[1:]))"


def test_the_suite_passes_with_the_pure_python_driver() -> None:
    address, question, query = database_url().partition("?")
    done = subprocess.run(
        [sys.executable, "-c", RUN, "-q", "--create-db", "-p", "no:cacheprovider",
         *(f"tests/storage/{file}" for file in FILES)],
        cwd=ROOT, env={**os.environ, "DATABASE_URL": f"{address}_pymysql{question}{query}"},
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert " passed" in done.stdout

"""What the doctor says of SQL Server, without one."""

from __future__ import annotations

import pytest

from chokaq_django.doctor.engines import engine_name
from tests.storage.mssql_recorder import ALIAS, Recorder, registered

pytestmark = pytest.mark.any_engine


@pytest.mark.parametrize(("azure", "name"), [(False, "SQL Server 2017"), (True, "Azure SQL")])
def test_its_name_and_version(azure: bool, name: str) -> None:
    with registered(Recorder()) as wrapper:
        wrapper.to_azure_sql_db = azure
        assert engine_name(ALIAS) == "SQL Server", "what was not asked yet is not known"
        wrapper.ensure_connection()
        assert engine_name(ALIAS) == name

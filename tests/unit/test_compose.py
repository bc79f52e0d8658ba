"""docker-compose.yml is valid by the Compose Specification, alone and under each override, and its parts fit."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for

from example_project.databases import database_from_url

ROOT = Path(__file__).resolve().parents[2]
OVERRIDES = {"mssql": "docker-compose.mssql.yml", "mariadb": "docker-compose.mariadb.yml"}
"""Profile -> the file laid over docker-compose.yml for it."""

# Its wheel carries the specification's schema. Only that file is read.
SCHEMA_PACKAGE = "check-jsonschema==0.39.0"
SCHEMA_FILE = "check_jsonschema/builtin_schemas/vendor/compose-spec.json"


def read(name: str) -> dict[str, Any]:
    return yaml.safe_load((ROOT / name).read_text())


def laid_over(below: Any, above: Any) -> Any:
    """``above`` over ``below``, by the rules of Compose: mappings are merged, lists follow each other."""
    if isinstance(below, dict) and isinstance(above, dict):
        return {key: laid_over(below.get(key), above.get(key, below.get(key))) for key in {**below, **above}}
    if isinstance(below, list) and isinstance(above, list) and below is not above:
        return [*below, *above]
    return above


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return read("docker-compose.yml")


@pytest.fixture(scope="module", params=[None, *OVERRIDES])
def project(request: pytest.FixtureRequest, compose: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """A profile, and the services that start with it."""
    profile = request.param
    whole = laid_over(compose, read(OVERRIDES[profile])) if profile else compose
    services = {
        name: service
        for name, service in whole["services"].items()
        if "profiles" not in service or profile in service["profiles"]
    }
    return profile, services


@pytest.fixture(scope="module")
def validator(tmp_path_factory: pytest.TempPathFactory) -> Validator:
    folder = tmp_path_factory.mktemp("compose")
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    done = subprocess.run([*download, "--dest", str(folder), SCHEMA_PACKAGE], capture_output=True, text=True)
    if done.returncode:
        reason = f"the schema cannot be fetched: {done.stderr.strip()}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        schema = json.loads(archive.read(SCHEMA_FILE))
    return validator_for(schema)(schema)


@pytest.mark.parametrize("name", ["docker-compose.yml", *OVERRIDES.values()])
def test_is_valid_by_the_specification(name: str, validator: Validator) -> None:
    assert [error.message for error in validator.iter_errors(read(name))] == []


def test_the_schema_refuses_what_is_wrong(compose: dict[str, Any], validator: Validator) -> None:
    wrong = {**compose, "services": {**compose["services"], "web": {**compose["services"]["web"], "port": "8000"}}}
    (error,) = validator.iter_errors(wrong)
    assert "'port'" in error.message


def test_every_lasting_service_has_a_health_check(compose: dict[str, Any]) -> None:
    without = {name for name, service in compose["services"].items() if "healthcheck" not in service}
    assert without == {"migrate", "mssql-init"}
    assert all(compose["services"][name]["restart"] == "no" for name in without)


def test_services_depend_only_on_what_starts(project: tuple[str | None, dict[str, Any]]) -> None:
    _, services = project
    for service in services.values():
        for name, need in service.get("depends_on", {}).items():
            if name not in services:
                assert need["required"] is False, name
            elif need["condition"] == "service_healthy":
                assert "healthcheck" in services[name]
            else:
                assert services[name]["restart"] == "no"


def test_volumes_are_there(compose: dict[str, Any]) -> None:
    mounted = {v.partition(":")[0] for s in compose["services"].values() for v in s.get("volumes", [])}
    files = {name for name in mounted if name.startswith("./")}
    assert mounted - files == set(compose["volumes"])
    assert all((ROOT / name).is_file() for name in files)


def test_the_project_is_pointed_at_the_server_that_starts(project: tuple[str | None, dict[str, Any]]) -> None:
    profile, services = project
    urls = {services[name]["environment"]["DATABASE_URL"] for name in ("migrate", "web", "worker")}
    (url,) = urls
    database = database_from_url(re.sub(r"\$\{\w+:?[-?][^}]*\}", "Pass%21word", url))
    host = str(database["HOST"])
    assert host == (profile or "postgres")
    assert database["PASSWORD"] == "Pass!word"
    waited_for = set(services["migrate"]["depends_on"]) & services.keys()
    assert waited_for & {host, f"{host}-init"}
    engines = {"django.db.backends.postgresql", "django.db.backends.mysql", "mssql"}
    assert services.keys() & {"postgres", "mariadb", "mssql"} == {host}
    assert database["ENGINE"] in engines


def test_sql_server_is_reached_without_a_driver_of_the_system(compose: dict[str, Any]) -> None:
    url = read(OVERRIDES["mssql"])["services"]["web"]["environment"]["DATABASE_URL"]
    options = database_from_url(re.sub(r"\$\{[^}]*\}", "x", url))["OPTIONS"]
    assert options["python_driver"] == "mssql_python"
    assert options["extra_params"] == "TrustServerCertificate=yes"


@pytest.mark.parametrize("profile", OVERRIDES)
def test_images_are_built_with_an_extra_that_exists(profile: str) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for service in read(OVERRIDES[profile])["services"].values():
        if "build" in service:
            database = service["build"]["args"]["DATABASE"]
            assert database in extras
            assert f"\n      {database}) keep=" in (ROOT / "Dockerfile").read_text()


@pytest.mark.parametrize("version", ["2017", "2022"])
def test_the_script_that_makes_the_database_parses(version: str) -> None:
    script = (ROOT / "docker/mssql-init.sql").read_text()
    maxdop = Path(sys.executable).with_name("maxdop")
    done = subprocess.run(
        [maxdop, "--parser-version", version], input=script, capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SET READ_COMMITTED_SNAPSHOT ON" in script


@pytest.mark.parametrize("password", ["Plain-pass1", "It's-1-pass", "'; DROP LOGIN sa; --'Aa1", 'a"b$c`d\\1A'])
def test_a_quote_in_the_password_ends_no_text_of_the_script(tmp_path: Path, password: str) -> None:
    *shell, command = read("docker-compose.yml")["services"]["mssql-init"]["entrypoint"]
    stub = tmp_path / "sqlcmd"
    stub.write_text('#!/bin/sh\nprintf %s "$MSSQL_PASSWORD"\n')
    stub.chmod(0o700)
    command = command.replace("$$", "$").replace("/opt/mssql-tools18/bin/sqlcmd", str(stub))
    done = subprocess.run([*shell, command], env={**os.environ, "MSSQL_PASSWORD": password}, capture_output=True,
                          text=True, timeout=30)  # fmt: skip
    assert done.stdout == password.replace("'", "''"), done.stderr
    script = (ROOT / "docker/mssql-init.sql").read_text()
    assert script.count("N'$(MSSQL_PASSWORD)'") == script.count("WITH PASSWORD") == 2, "for a new login and a known one"

"""docker-compose.yml is valid by the Compose Specification, and its parts fit together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft201909Validator

ROOT = Path(__file__).resolve().parents[2]

# The last Python release of Docker Compose; its wheel carries the specification's schema. Only that file is read.
SCHEMA_PACKAGE = "docker-compose==1.29.2"
SCHEMA_FILE = "compose/config/compose_spec.json"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text())


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
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
        return json.loads(archive.read(SCHEMA_FILE))


def test_is_valid_by_the_specification(compose: dict[str, Any], schema: dict[str, Any]) -> None:
    assert [error.message for error in Draft201909Validator(schema).iter_errors(compose)] == []


def test_the_schema_refuses_what_is_wrong(compose: dict[str, Any], schema: dict[str, Any]) -> None:
    wrong = {**compose, "services": {**compose["services"], "web": {**compose["services"]["web"], "port": "8000"}}}
    (error,) = Draft201909Validator(schema).iter_errors(wrong)
    assert "'port'" in error.message


def test_every_lasting_service_has_a_health_check(compose: dict[str, Any]) -> None:
    without = {name for name, service in compose["services"].items() if "healthcheck" not in service}
    assert without == {"migrate"}


def test_services_depend_only_on_what_is_there(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for service in services.values():
        for name, need in service.get("depends_on", {}).items():
            assert name in services
            if need["condition"] == "service_healthy":
                assert "healthcheck" in services[name]
    volumes = {v.partition(":")[0] for s in services.values() for v in s.get("volumes", [])}
    assert volumes == set(compose["volumes"])

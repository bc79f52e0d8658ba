"""The tables while they are upgraded: what is there already, and processes of the version before that still run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.core.management import call_command
from django.db import connection
from django.db.migrations import AddField
from django.db.migrations.loader import MigrationLoader
from django.test import override_settings

from chokaq_django import control
from chokaq_django.job.ids import new_id
from chokaq_django.models import BulkItem, BulkState, JobTrash
from chokaq_django.storage import get_storage
from tests import factories as make


@pytest.fixture(autouse=True)
def _current(transactional_db: None) -> Iterator[None]:
    """The tables and the permissions as the other tests find them."""
    yield
    migrate("0010")
    migrate()


def migrate(*name: str) -> None:
    call_command("migrate", "chokaq", *name, verbosity=0)


def begin(migration: str, **columns: Any) -> str:
    """A bulk operation as the code that knows the tables up to this migration begins it."""
    state = MigrationLoader(connection).project_state(("chokaq", migration))
    now = get_storage().now()
    row = state.apps.get_model("chokaq", "BulkOperation")(
        id=new_id(), action="edit", state="running", created_at=now, updated_at=now, **columns
    )
    row.save(force_insert=True)
    return str(row.id)


def test_a_counter_that_is_new_is_nought_of_what_older_code_begins() -> None:
    migrate("0009")
    before = begin("0009_group_fillfactor")
    migrate("0010")
    for operation in (before, begin("0009_group_fillfactor")):
        view = control.bulk_get(operation)
        assert view is not None
        assert view.left_alone == 0
        while get_storage().bulk_step(operation).pause is not None:
            pass
        done = control.bulk_get(operation)
        assert done is not None
        assert (done.state, done.left_alone) == (BulkState.DONE, 0)


def test_what_was_purged_before_it_was_noted_by_what_is_restored() -> None:
    corpse = make.dead()
    view = control.bulk_run(control.bulk_purge([corpse.pk], by="ada").id)
    BulkItem.objects.update(note=None)  # as older code leaves it
    migrate("0011")
    migrate()
    assert JobTrash.objects.get().operation_id is None
    assert control.bulk_run(control.bulk_undo(view.id, by="ada").id).applied == 1


@pytest.mark.any_engine
def test_columns_that_are_new_may_be_left_out() -> None:
    """Processes of the version before go on writing rows. What came before 0010 never ran beside anything."""
    loader = MigrationLoader(None)
    for (app, name), migration in sorted(loader.disk_migrations.items()):
        if app == "chokaq" and name >= "0010":
            for operation in migration.operations:
                if isinstance(operation, AddField):
                    assert operation.field.null or operation.field.has_db_default(), (name, operation.name)


class Router:
    """Keeps the tables of one app out of the database."""

    def __init__(self, app: str) -> None:
        self.app = app

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        return False if app_label == self.app else None


def made() -> set[str]:
    return set(Permission.objects.filter(content_type__app_label="chokaq").values_list("codename", flat=True))


@pytest.mark.any_engine
@pytest.mark.parametrize(("elsewhere", "gone"), [(None, True), ("chokaq", True), ("auth", False)])
def test_permissions_that_allow_nothing_go_where_permissions_are(elsewhere: str | None, gone: bool) -> None:
    wanted = made()
    assert wanted
    migrate("0010")
    unused = made() - wanted
    assert {"add_jobhot", "change_queue", "delete_worker", "view_bulkitem"} <= unused, "Django makes them"
    group, other = Group.objects.create(name="operators"), Permission.objects.get(codename="add_group")
    group.permissions.set([*Permission.objects.filter(codename__in=["add_jobhot", "operate"]), other])
    with override_settings(DATABASE_ROUTERS=[Router(elsewhere)] if elsewhere else []):
        migrate("0011")
    assert made() == (wanted if gone else wanted | unused)
    left = set(group.permissions.values_list("codename", flat=True))
    assert left == {"operate", "add_group"} | (set() if gone else {"add_jobhot"})

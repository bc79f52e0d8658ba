"""The example shop's jobs on real input: orders over HTTP, worker processes, e-mails as files."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer

from chokaq_django import FailureReason, enqueue, enqueue_many
from chokaq_django.models import JobArchive, JobDLQ, JobHot
from example_project.shop.jobs import ImportStockJob, NightlyReportJob, ResizePictureJob
from example_project.shop.management.commands.demo_load import Customer
from example_project.shop.models import Order, Report, StockImport, StockRow

from ..helpers import WorkerProcess, wait_until

StartWorker = Callable[..., WorkerProcess]


def emails(folder: Path) -> list[Message]:
    texts = [text for path in sorted(folder.glob("*.log")) for text in path.read_text().split("-" * 79)]
    return [message_from_string(text.lstrip("\n")) for text in texts if text.strip()]


def test_an_order_over_http_becomes_an_email_written_by_a_worker(
    live_server: LiveServer, worker_process: StartWorker, tmp_path: Path
) -> None:
    worker = worker_process("--queues=mail", env={"EMAIL_DIR": str(tmp_path)})
    number = Customer(live_server.url).order()
    order = wait_until(lambda: Order.objects.filter(pk=number, status=Order.Status.CONFIRMED).first())
    wait_until(lambda: JobArchive.objects.filter(type="shop.send_confirmation.v1").count() == 1)
    (email,) = emails(tmp_path)
    assert email["To"] == order.email
    assert email["Subject"] == f"Your order {number}"
    assert f"{order.quantity} x {order.item}" in str(email.get_payload())
    assert worker.stop() == 0


def test_a_refused_order_leaves_no_order_no_job_no_email(
    live_server: LiveServer, worker_process: StartWorker, tmp_path: Path
) -> None:
    assert Customer(live_server.url).order(refused=True) is None
    assert not Order.objects.exists()
    assert not JobHot.objects.exists()
    assert worker_process("--burst", env={"EMAIL_DIR": str(tmp_path)}).wait() == 0
    assert emails(tmp_path) == []


@pytest.mark.django_db
def test_an_order_that_is_not_valid_is_refused_with_its_errors(client: Client) -> None:
    response = client.post("/orders/", {"email": "not an address", "item": "Teapot", "quantity": 0})
    assert response.status_code == 400
    assert response.json()["errors"].keys() == {"email", "quantity"}
    assert not JobHot.objects.exists()


def test_an_import_is_there_once_or_not_at_all(worker_process: StartWorker) -> None:
    good = StockImport.objects.create(name="good", source="\n".join(f"SKU-{n},{n}" for n in range(40)))
    bad = StockImport.objects.create(name="bad", source="SKU-1,1\nSKU-2,many\nSKU-3,3")
    enqueue_many([ImportStockJob(import_id=good.pk), ImportStockJob(import_id=bad.pk)])
    assert worker_process("--queues=imports", "--burst").wait() == 0
    assert StockRow.objects.filter(stock_import=good).count() == 40
    assert not StockRow.objects.filter(stock_import=bad).exists()
    dead = JobDLQ.objects.get()
    assert dead.failure_reason == FailureReason.FATAL_ERROR
    assert "bad, line 2" in dead.error_details


def test_a_report_adds_up_a_day_and_an_async_job_answers(worker_process: StartWorker) -> None:
    Order.objects.bulk_create(Order(email="ada@example.com", item="Teapot", quantity=2) for _ in range(250))
    today: dt.date = timezone.now().date()
    report = enqueue(NightlyReportJob(day=today))
    picture = enqueue(ResizePictureJob(name="a.png", width=640))
    worker = worker_process("--burst", env={"CHOKAQ_LOG_LEVEL": "INFO"})
    assert worker.wait() == 0
    assert f"report of {today}: 250 orders" in worker.output
    assert Report.objects.get().orders == 250
    assert str(Report.objects.get().revenue) == "4950.00"
    results = dict(JobArchive.objects.values_list("id", "result"))
    assert '"orders":"250"' in (results[report.id] or "").replace(" ", "")
    assert '"height":480' in (results[picture.id] or "").replace(" ", "")

"""``manage.py demo_load``: customers who order over HTTP, and work of the other kinds."""

from __future__ import annotations

import datetime as dt
import http.client
import http.cookiejar
import json
import random
import signal
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from chokaq_django import control, enqueue, enqueue_many
from example_project.shop.jobs import (
    ExportCatalogueJob,
    ImportStockJob,
    InviteReviewJob,
    NightlyReportJob,
    ResizePictureJob,
)
from example_project.shop.models import Order, StockImport

ITEMS = ["Teapot", "Kettle", "Sugar bowl", "Milk jug", "Cup and saucer", "Tea towel"]
LANGUAGES = ["English", "Deutsch", "Français", "Ελληνικά"]
NAMES = ["ada", "grace", "alan", "edsger", "barbara", "donald"]


class Customer:
    """A browser of its own: it fetches the shop's page for the CSRF cookie, then posts the form."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._cookies = http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self._cookies))

    def _csrf_token(self) -> str:
        while True:
            for cookie in self._cookies:
                if cookie.name == "csrftoken" and cookie.value:
                    return cookie.value
            self._opener.open(f"{self._address}/", timeout=10).close()

    def order(self, *, refused: bool = False) -> int | None:
        """Places an order; its number, or None when the payment is refused. ``OSError`` or ``HTTPException`` when the
        shop does not answer as it should."""
        fields = {
            "csrfmiddlewaretoken": self._csrf_token(),
            "email": f"{random.choice(NAMES)}@example.com",
            "item": random.choice(ITEMS),
            "quantity": random.randint(1, 6),
            "fail": "1" if refused else "",
        }
        data = urllib.parse.urlencode(fields).encode()
        try:
            with self._opener.open(f"{self._address}/orders/", data=data, timeout=10) as response:
                return int(json.load(response)["order"])
        except urllib.error.HTTPError as error:
            if error.code == 402:
                return None
            raise


class Command(BaseCommand):
    help = (
        "Places orders at a steady rate, enqueues pictures, imports, exports and reports, some broken, until stopped."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--address", default="http://127.0.0.1:8000", help="the shop (default: %(default)s)")
        parser.add_argument("--rate", type=float, default=2.0, help="orders per second (default: %(default)s)")

    def handle(self, *args: Any, address: str, rate: float, **options: Any) -> None:
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        control.set_queue("exports", max_workers=4, by="ada", reason="Exports are heavy")
        customer = Customer(address)
        placed = refused = 0
        told = time.monotonic()
        turn = 0
        while not stop.wait(1 / rate):
            turn += 1
            try:
                if customer.order(refused=turn % 10 == 0) is None:
                    refused += 1
                else:
                    placed += 1
            except (OSError, http.client.HTTPException) as error:  # URLError and lost connections are OSErrors
                self.stdout.write(f"the shop does not answer ({error}), trying again")
                stop.wait(1)
                continue
            self._other_work(turn)
            self._operators(turn)
            if time.monotonic() - told > 10:
                self.stdout.write(f"{placed} orders placed, {refused} refused and rolled back")
                told = time.monotonic()

    def _other_work(self, turn: int) -> None:
        if turn % 3 == 0:
            enqueue_many([ResizePictureJob(name=f"picture-{turn}.png", width=width) for width in (320, 640, 1280)])
        if turn % 45 == 0:
            enqueue(ResizePictureJob(name=f"broken-{turn}.png"), tags=["upload"], created_by="demo")
        if turn % 12 == 0:
            enqueue(ExportCatalogueJob(language=random.choice(LANGUAGES)), created_by="demo")
        if turn % 10 == 0:
            lines = [f"SKU-{random.randint(1, 999):03d},{random.randint(1, 50)}" for _ in range(40)]
            if turn % 30 == 0:
                lines[random.randrange(len(lines))] = "SKU-000,many"
            stock_import = StockImport.objects.create(name=f"stock-{turn}.csv", source="\n".join(lines))
            enqueue(ImportStockJob(import_id=stock_import.pk), tags=["import"], created_by="demo")
        if turn % 5 == 0:
            self._invite(turn)
        if turn % 300 == 0:  # more than its time allows
            enqueue(ExportCatalogueJob(language=random.choice(LANGUAGES), pages=2_000), created_by="demo")
        if turn % 20 == 0:
            today = timezone.localdate()
            enqueue(
                NightlyReportJob(day=today),
                delay=dt.timedelta(seconds=5),
                idempotency_key=f"report-{today}",
                created_by="demo",
            )

    def _invite(self, turn: int) -> None:
        """Letters for later; every third is of no use when it comes late."""
        order = Order.objects.first()
        if order is None:
            return
        delay = dt.timedelta(seconds=random.randint(20, 240))
        latest = delay + dt.timedelta(seconds=30) if turn % 3 == 0 else None
        enqueue(InviteReviewJob(order_id=order.pk), delay=delay, deadline_after=latest, created_by="shop")

    def _operators(self, turn: int) -> None:
        """What people do meanwhile: it is in the audit, and the Deck shows it."""
        if turn % 240 == 90:
            control.pause_queue("letters", by="ada", reason="The letter's template is being corrected")
        elif turn % 240 == 220:
            control.resume_queue("letters", by="ada", reason="The template is right again")
        elif turn % 60 == 30:
            waiting = control.list_jobs(control.JobFilter(status="scheduled", queue="letters"), limit=1)
            control.cancel([job.id for job in waiting.jobs], by="grace", reason="The customer wants no letters")

"""The shop's jobs: each shows one way to use the job system."""

from __future__ import annotations

import asyncio
import csv
import datetime as dt
import io
from decimal import Decimal

from django.core.mail import send_mail
from django.db import transaction
from django.utils import timezone

from chokaq_django import FatalJobError, Job, JobContext, ThrottledError

from . import partner
from .models import Order, Report, StockImport, StockRow


class SendConfirmationJob(Job, type="shop.send_confirmation.v1", queue="mail", priority=20, max_attempts=5, timeout=30):
    """Writes the customer an e-mail, then marks the order confirmed.

    An e-mail cannot be part of a transaction, so this runs at least once: after a crash between the two steps the
    customer gets the e-mail a second time. A confirmed order is not written to again.
    """

    order_id: int

    def run(self, ctx: JobContext) -> None:
        order = Order.objects.get(pk=self.order_id)
        if order.status == Order.Status.CONFIRMED:
            return
        send_mail(
            subject=f"Your order {order.pk}",
            message=f"Thank you. We are packing {order.quantity} x {order.item} for you: {order.total} EUR.",
            from_email="shop@example.com",
            recipient_list=[order.email],
        )
        Order.objects.filter(pk=order.pk).update(status=Order.Status.CONFIRMED, confirmed_at=timezone.now())


class ImportStockJob(Job, type="shop.import_stock.v1", queue="imports", atomic=True):
    """Reads an uploaded list into rows. ``atomic``: the rows and the job's success are one transaction, so the rows are
    there exactly once, however often a worker dies. A malformed line is fatal: trying again would not mend it.
    """

    import_id: int

    def run(self, ctx: JobContext) -> dict[str, int]:
        stock_import = StockImport.objects.get(pk=self.import_id)
        rows = []
        for number, line in enumerate(csv.reader(io.StringIO(stock_import.source)), start=1):
            try:
                sku, quantity = line
                rows.append(StockRow(stock_import=stock_import, sku=sku, quantity=int(quantity)))
            except ValueError as error:
                raise FatalJobError(f"{stock_import.name}, line {number}: {error}") from error
        StockRow.objects.bulk_create(rows, batch_size=500)
        StockImport.objects.filter(pk=stock_import.pk).update(imported_at=timezone.now())
        return {"rows": len(rows)}


class NightlyReportJob(Job, type="shop.nightly_report.v1", queue="reports", priority=5, timeout=600):
    """Adds up one day, telling how far it is and stopping when it is asked to."""

    day: dt.date

    def run(self, ctx: JobContext) -> dict[str, str]:
        orders = Order.objects.filter(placed_at__date=self.day)
        total = orders.count()
        revenue = Decimal(0)
        for number, order in enumerate(orders.iterator(chunk_size=200), start=1):
            revenue += order.total
            if number % 200 == 0:
                ctx.raise_if_cancelled()
                ctx.progress(100 * number / total, f"{number} of {total} orders")
        with transaction.atomic():
            Report.objects.update_or_create(day=self.day, defaults={"orders": total, "revenue": revenue})
        ctx.log.info("report of %s: %d orders", self.day, total)
        return {"orders": str(total), "revenue": str(revenue)}


class PartnerSyncJob(Job, type="shop.partner_sync.v1", queue="partner", max_attempts=4, timeout=20):
    """Hands an order to a partner that is sometimes busy and sometimes away.

    "Busy" is not a failure: the job comes back when the partner said. When the partner is away, failures open the
    type's circuit and its jobs wait without using attempts.
    """

    order_id: int

    def run(self, ctx: JobContext) -> str:
        try:
            reference = partner.push_order(self.order_id)
        except partner.PartnerBusyError as error:
            raise ThrottledError(retry_after=error.retry_after) from error
        Order.objects.filter(pk=self.order_id).update(partner_reference=reference)
        return reference


class ResizePictureJob(Job, type="shop.resize_picture.v1", queue="pictures", max_attempts=2):
    """An async job: many of these wait at once in one thread. It only pretends to call a picture service, which
    cannot read every file."""

    name: str
    width: int = 640

    async def run(self, ctx: JobContext) -> dict[str, int]:
        await asyncio.sleep(0.3)
        if self.name.startswith("broken"):
            raise ValueError(f"cannot read {self.name}: it ends after 4096 bytes")
        return {"width": self.width, "height": self.width * 3 // 4}


class ExportCatalogueJob(Job, type="shop.export_catalogue.v1", queue="exports", priority=5, timeout=60):
    """Writes the catalogue in one language, page by page: a job of many seconds that says how far it is, and stops when
    it is told to. It only pretends to write."""

    language: str
    pages: int = 60

    async def run(self, ctx: JobContext) -> dict[str, int]:
        for number in range(1, self.pages + 1):
            ctx.raise_if_cancelled()
            await asyncio.sleep(0.25)
            ctx.progress(100 * number / self.pages, f"{self.language}: page {number} of {self.pages}")
        return {"pages": self.pages}


class InviteReviewJob(Job, type="shop.invite_review.v1", queue="letters", priority=5, max_attempts=2):
    """Asks a customer for a review some time after the order. It is enqueued with a delay, and now and then with a
    deadline: a letter that would come too late is not written."""

    order_id: int

    def run(self, ctx: JobContext) -> None:
        order = Order.objects.get(pk=self.order_id)
        send_mail("How was it?", f"How do you like your {order.item}?", "shop@example.com", [order.email])

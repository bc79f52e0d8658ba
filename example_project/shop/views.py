"""The shop's pages: a form, the last orders, and one order as JSON."""

from __future__ import annotations

from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_POST

from chokaq_django import enqueue

from .forms import OrderForm
from .jobs import PartnerSyncJob, SendConfirmationJob
from .models import Order


class PaymentRefusedError(Exception):
    """Raised after everything was written, to show that nothing of it stays."""


@require_GET
def home(request: HttpRequest) -> HttpResponse:
    form = OrderForm(initial={"email": "ada@example.com", "item": "Teapot", "quantity": 1})
    return render(request, "shop/home.html", {"form": form, "orders": Order.objects.all()[:20]})


@require_POST
def place_order(request: HttpRequest) -> HttpResponse:
    """Places an order: the row and its two jobs are one transaction.

    201 with ``{"order", "job"}``; 400 with the form's errors; 402 when the payment is refused (``fail=1``): neither the
    order nor its jobs are kept. A browser's form post is sent back to the page instead of getting JSON.
    """
    form = OrderForm(request.POST)
    if not form.is_valid():
        return JsonResponse({"errors": form.errors}, status=400)
    try:
        with transaction.atomic():
            order = form.save()
            job = enqueue(
                SendConfirmationJob(order_id=order.pk),
                idempotency_key=f"order-{order.pk}-confirmation",
                tags=["order"],
                created_by="shop",
            )
            enqueue(PartnerSyncJob(order_id=order.pk), tags=["order"], created_by="shop")
            if request.POST.get("fail") == "1":
                raise PaymentRefusedError
    except PaymentRefusedError:
        return JsonResponse({"errors": {"payment": ["refused"]}}, status=402)
    if "text/html" in request.headers.get("Accept", ""):
        return redirect("home")
    return JsonResponse({"order": order.pk, "job": job.id}, status=201)


@require_GET
def order_detail(request: HttpRequest, order_id: int) -> HttpResponse:
    order = get_object_or_404(Order, pk=order_id)
    return JsonResponse(
        {
            "id": order.pk,
            "item": order.item,
            "quantity": order.quantity,
            "total": str(order.total),
            "status": order.status,
            "partner_reference": order.partner_reference,
        }
    )

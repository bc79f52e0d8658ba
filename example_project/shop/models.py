"""What the shop keeps."""

from __future__ import annotations

from decimal import Decimal

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models


class Order(models.Model):
    """One order. The confirmation job moves it from ``placed`` to ``confirmed``."""

    class Status(models.TextChoices):
        PLACED = "placed"
        CONFIRMED = "confirmed"

    email = models.EmailField()
    item = models.CharField(max_length=100)
    quantity = models.IntegerField(default=1, validators=[MinValueValidator(1), MaxValueValidator(1000)])
    unit_price = models.DecimalField(max_digits=8, decimal_places=2, default=Decimal("9.90"))
    status = models.CharField(max_length=20, choices=Status, default=Status.PLACED)
    partner_reference = models.CharField(max_length=40, blank=True)
    placed_at = models.DateTimeField(auto_now_add=True)
    confirmed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"Order {self.pk}: {self.quantity} x {self.item}"

    @property
    def total(self) -> Decimal:
        return self.quantity * self.unit_price


class StockImport(models.Model):
    """An uploaded stock list, kept as text (``sku,quantity`` a line) until its job has read it."""

    name = models.CharField(max_length=100)
    source = models.TextField()
    created_at = models.DateTimeField(auto_now_add=True)
    imported_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.name


class StockRow(models.Model):
    """One imported line. There is no unique constraint on purpose: a job that ran twice would show."""

    stock_import = models.ForeignKey(StockImport, on_delete=models.CASCADE, related_name="rows")
    sku = models.CharField(max_length=40)
    quantity = models.IntegerField()

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.sku}: {self.quantity}"


class Report(models.Model):
    """One day's orders in figures."""

    day = models.DateField(unique=True)
    orders = models.IntegerField()
    revenue = models.DecimalField(max_digits=12, decimal_places=2)
    created_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["-day"]

    def __str__(self) -> str:
        return f"{self.day}: {self.orders} orders"

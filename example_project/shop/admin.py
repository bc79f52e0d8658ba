"""The shop in admin, next to its jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin

from .models import Order, Report, StockImport

if TYPE_CHECKING:
    OrderModelAdmin = admin.ModelAdmin[Order]
    StockImportModelAdmin = admin.ModelAdmin[StockImport]
    ReportModelAdmin = admin.ModelAdmin[Report]
else:  # Django's classes take no type argument at run time
    OrderModelAdmin = StockImportModelAdmin = ReportModelAdmin = admin.ModelAdmin


@admin.register(Order)
class OrderAdmin(OrderModelAdmin):
    list_display = ["id", "email", "item", "quantity", "status", "partner_reference", "placed_at"]
    list_filter = ["status"]


@admin.register(StockImport)
class StockImportAdmin(StockImportModelAdmin):
    list_display = ["name", "created_at", "imported_at"]


@admin.register(Report)
class ReportAdmin(ReportModelAdmin):
    list_display = ["day", "orders", "revenue", "created_at"]

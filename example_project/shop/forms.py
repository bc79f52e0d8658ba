"""What a customer may send."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django import forms

from .models import Order

if TYPE_CHECKING:
    OrderModelForm = forms.ModelForm[Order]
else:  # Django's class takes no type argument at run time
    OrderModelForm = forms.ModelForm


class OrderForm(OrderModelForm):
    class Meta:
        model = Order
        fields = ["email", "item", "quantity"]

"""What follows a row in the order of time and id, along an index."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django.db import connections
from django.db.models import DateTimeField, F, Func, Q, QuerySet, Subquery, Value
from django.db.models.functions import Cast, Coalesce
from django.db.models.lookups import GreaterThan, GreaterThanOrEqual, IsNull, LessThan, LessThanOrEqual

from ..models.fields import FIRST, LAST, UTCDateTimeField, held_instant, stands_for_many

__all__ = ["behind"]


def behind(rows: QuerySet[Any], column: str, at: dt.datetime, row_id: str, *, ascending: bool) -> QuerySet[Any]:
    """``rows`` behind the one that has this instant in ``column`` and this id."""
    sign = "gt" if ascending else "lt"
    further = Q(**{f"pk__{sign}": row_id})
    if stands_for_many(at, connections[rows.db].vendor):
        return rows.filter(_behind_held(rows, column, at, row_id, further, ascending=ascending))
    # The condition on the time alone is for the index, which does not see that the others imply it.
    return rows.filter(Q(**{f"{column}__{sign}e": at}) & (Q(**{f"{column}__{sign}": at}) | further))


def _behind_held(rows: QuerySet[Any], column: str, at: dt.datetime, row_id: str, further: Q, *, ascending: bool) -> Q:
    """The same by what the server holds of that row. Where it is gone, from the first that may be read as it was: it is
    better that some are told twice than that others are passed over."""
    vendor = connections[rows.db].vendor

    def held(value: Any) -> Func:
        return Func(value, template=held_instant("%(expressions)s", vendor), output_field=DateTimeField())

    after, reached, start, order = (
        (GreaterThan, GreaterThanOrEqual, FIRST, column)
        if ascending
        else (LessThan, LessThanOrEqual, LAST, f"-{column}")
    )
    instants = rows.model._default_manager.using(rows.db).values_list(held(F(column)))
    place = Subquery(instants.filter(pk=row_id))
    given = held(Cast(Value(at, output_field=UTCDateTimeField()), output_field=UTCDateTimeField()))
    begin = Coalesce(place, Subquery(instants.order_by(order)[:1]) if at == start else given)
    return Q(reached(held(F(column)), begin)) & (Q(after(held(F(column)), place)) | further | Q(IsNull(place, True)))

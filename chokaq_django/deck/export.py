"""Lists as files: a stream of NDJSON or CSV, read page by page, for as many rows as there are."""

from __future__ import annotations

import csv
import datetime as dt
import itertools
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Any

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse

from ..conf import get_options
from ..control import JobFilter
from ..job.text import safe_text
from ..job.verbatim import read, write
from ..reading.acts import ActFilter, list_acts
from ..reading.documents import audit_document, job_line
from ..reading.job import MODELS, Location
from ..reading.listing import iter_pages
from ..reading.masks import MASK, mask_text

__all__ = ["FORMATS", "acts", "jobs", "stream"]

FORMATS = ("ndjson", "csv")
PAGE = 500
HEAVY_PAGE = 50
"""Jobs whose payloads, which may have a megabyte each, are held at one time."""
_TYPES = {"ndjson": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}
_HEAVY = {
    Location.HOT: ("payload",),
    Location.ARCHIVE: ("payload", "result"),
    Location.DLQ: ("payload", "error_details"),
    Location.TRASH: ("payload", "result", "error_details"),
}

BOM = "\ufeff"
"""What a CSV file begins with: without it, spreadsheets take UTF-8 for the code page of their machine."""
FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "\t", "\r", "\n")
"""What a text begins with that a spreadsheet would run, whoever wrote it. In some languages the wide signs count."""

Record = dict[str, Any]


class _Json(str):
    """JSON text that goes into a line as it is."""

    __slots__ = ()


# -- what is exported --------------------------------------------------------------------------------------------------


def jobs(where: JobFilter, now: dt.datetime, *, may_see: bool) -> Iterator[list[Record]]:
    """The jobs that a filter finds, some at a time. ``may_see``: with payloads, results and error texts, values masked
    by their names as on the pages; without, these are masked whole."""
    names = _HEAVY[Location(where.place)]
    for page in iter_pages(where, limit=PAGE):
        for start in range(0, len(page.jobs), HEAVY_PAGE):
            part = page.jobs[start : start + HEAVY_PAGE]
            texts = _texts(where.place, [job.id for job in part], names) if may_see else {}
            # Who may not see them is not told which jobs have them.
            hidden = dict.fromkeys(names, MASK)
            yield [
                {**job_line(job, now), "idempotency_key": job.idempotency_key, **texts.get(job.id, hidden)}
                for job in part
                if not may_see or job.id in texts  # it has moved away meanwhile
            ]


def _texts(place: str, ids: list[str], names: tuple[str, ...]) -> dict[str, Record]:
    rows = MODELS[Location(place)]._default_manager.using(get_options().database).filter(pk__in=ids)
    found = {}
    for job_id, *values in rows.values_list("pk", *names):
        found[job_id] = {
            name: value if name == "error_details" else _masked(value)
            for name, value in zip(names, values, strict=True)
        }
    return found


def _masked(text: str | None) -> str | None:
    """JSON on one line, without its secrets; text that is none, as text."""
    if text is None:
        return None
    masked = mask_text(text).text
    try:
        return _Json(write(read(masked)))
    except ValueError:
        return masked


def acts(where: ActFilter, *, may_see: bool) -> Iterator[list[Record]]:
    """The acts that a filter finds. ``may_see``: with all their details, which may quote payloads."""
    after: str | None = None
    while True:
        page = list_acts(where, limit=PAGE, after=after)
        yield [dict(audit_document(entry, may_see=may_see)) for entry in page.rows]
        if page.next is None:
            return
        after = page.next


# -- how ---------------------------------------------------------------------------------------------------------------


def stream(request: HttpRequest, records: Iterator[list[Record]], kind: str, name: str) -> StreamingHttpResponse:
    """The answer that is written while it is read. ``name``: of the file, without its ending.

    The first part is read now: what is wrong with a filter must be said before the answer has begun.
    """
    records = itertools.chain([next(records, [])], records)
    parts = _csv(records) if kind == "csv" else _ndjson(records)
    # Django would gather the whole of a plain iterator before it sends the first byte of it to an ASGI server.
    content: Any = _apart(parts) if isinstance(request, ASGIRequest) else parts
    response = StreamingHttpResponse(content, content_type=_TYPES[kind])
    response.headers["Content-Disposition"] = f'attachment; filename="{name}.{kind}"'
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


async def _apart(parts: Iterator[str]) -> AsyncIterator[str]:
    """Each part read in the thread that this request's database connection belongs to."""
    following = sync_to_async(lambda: next(parts, None))
    while (part := await following()) is not None:
        yield part


def _ndjson(records: Iterable[list[Record]]) -> Iterator[str]:
    for part in records:
        text = "".join(f"{{{', '.join(_member(name, value) for name, value in each.items())}}}\n" for each in part)
        if text:
            yield text


def _member(name: str, value: Any) -> str:
    return f"{json.dumps(name)}: {value if isinstance(value, _Json) else _json(value)}"


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if safe_text(text) == text else json.dumps(value)


class _Line:
    """What a csv writer writes to."""

    def write(self, text: str) -> str:
        return text


def _csv(records: Iterable[list[Record]]) -> Iterator[str]:
    writer = csv.writer(_Line())
    names: list[str] = []
    for part in records:
        lines = []
        for each in part:
            if not names:
                names = list(each)
                lines += [BOM, writer.writerow(names)]
            lines.append(writer.writerow([_cell(each, name) for name in names]))
        if lines:
            yield "".join(map(str, lines))


def _cell(record: Mapping[str, Any], name: str) -> Any:
    value = record.get(name)
    if value is None:
        return ""
    if isinstance(value, (list, dict)):
        value = _json(value)
    if not isinstance(value, str):
        return value
    text = safe_text(str(value))
    return f"'{text}" if text.startswith(FORMULA) else text

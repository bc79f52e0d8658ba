"""The pages of the Deck, one module each."""

from __future__ import annotations

from ..page import DeckPage
from .bulk import BulkPage
from .bulk_new import BulkNewPage
from .bulk_one import BulkOnePage
from .circuits import CircuitsPage
from .data import SeriesData, SnapshotData
from .failure import FailurePage
from .failures import FailuresPage
from .find import FindPage
from .fleet import FleetPage
from .health import HealthPage
from .job import JobPage
from .job_edit import JobEditPage
from .queue import QueuePage
from .queues import QueuesPage
from .retention import RetentionPage
from .settings import SettingsPage

__all__ = ["PAGES"]

PAGES: tuple[type[DeckPage], ...] = (
    BulkPage,
    BulkNewPage,
    BulkOnePage,
    HealthPage,
    JobPage,
    JobEditPage,
    CircuitsPage,
    FailurePage,
    FailuresPage,
    FindPage,
    FleetPage,
    QueuePage,
    QueuesPage,
    RetentionPage,
    SettingsPage,
    SeriesData,
    SnapshotData,
)
"""All but the overview, which stands at the Deck's own address."""

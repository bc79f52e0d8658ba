"""How much the tests of large numbers do."""

from __future__ import annotations

import os

VERY_MANY = int(os.environ.get("CHOKAQ_TEST_ROWS", "6000"))
"""Rows, more than any statement takes at once. What is promised for 100,000 is shown by ``CHOKAQ_TEST_ROWS=100000``, in
minutes."""

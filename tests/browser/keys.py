"""Shortcuts: keys that are hit one after the other."""

from __future__ import annotations

import re

from playwright.sync_api import Page, Request
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

from ..helpers import wait_until


def lead(page: Page, keys: str, where: re.Pattern[str]) -> None:
    """Hit the keys until they lead to the page ``where``, and wait for it.

    Keys that are hit while a page is read anew, or too far apart, are lost, as they are to a person, who hits them
    again.
    """

    def is_it(request: Request) -> bool:
        return request.is_navigation_request() and where.search(request.url) is not None

    def asked() -> bool:
        try:
            with page.expect_request(is_it, timeout=3_000):
                for key in keys:
                    page.keyboard.press(key)
        except PlaywrightTimeoutError:
            return False
        return True

    with page.expect_navigation(url=where):
        wait_until(asked, 60, what=f"the keys {keys} lead on")

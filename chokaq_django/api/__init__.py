"""The JSON API: the operator's verbs and what one looks at, for programs.

``path("chokaq/api/", include("chokaq_django.api_urls"))`` puts it where it is wanted; nothing is served without that.
Every endpoint calls :mod:`chokaq_django.control` with the user who asks, as the Deck and the commands do.
"""

"""The ``CHOKAQ`` setting: the options of a project, as frozen, typed objects.

- :mod:`.options`: the options and their defaults
- :mod:`.rules`: what each may be
- :mod:`.parsing`: the setting, read into options
- :mod:`.overridable`: those that operators may set while everything runs
- :mod:`.current`: what holds in this process
- :mod:`.text`: their values as people write them
"""

from __future__ import annotations

from .current import (
    fitting,
    get_options,
    options_with,
    override_options,
    overrides,
    project_options,
    what_is_wrong,
)
from .options import Options, QueueOptions, Window
from .parsing import OptionProblem, parse_options

__all__ = [
    "OptionProblem",
    "Options",
    "QueueOptions",
    "Window",
    "fitting",
    "get_options",
    "options_with",
    "override_options",
    "overrides",
    "parse_options",
    "project_options",
    "what_is_wrong",
]

"""The peers that our attacks are compared with: dev dependencies, so that a missing one fails a test."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any


def peer(name: str) -> Any:
    """The library of that name; what it warns of while it is imported is not ours."""
    with warnings.catch_warnings(action="ignore"):
        return import_module(name)

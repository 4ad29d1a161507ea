"""Limits: bounds on single passes that all parties agree on, whoever asks."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

from pydantic import ConfigDict

from modelkeep.core.errors import bad_parameter


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What every party enforces on what it sends and on what it gets.

    No activation and no gradient may be larger than `magnitude` (None: any finite number). An evaluation judges at
    least `least_rows` rows together: the score of a single row gives its label away. A consent holds for
    `consent_seconds`. Each party keeps what it received in its last `checked_passes`, so that another one can check
    what it made of that (0: nothing is kept, and nothing can be checked).
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    magnitude: float | None = None
    least_rows: int = 1
    consent_seconds: float = 600.0
    checked_passes: int = 0

    def __post_init__(self) -> None:
        if self.magnitude is not None and not (isfinite(self.magnitude) and self.magnitude > 0):
            raise bad_parameter("Limits", "magnitude", "a number above 0, or none", self.magnitude)
        if self.least_rows < 1:
            raise bad_parameter("Limits", "least_rows", "at least 1", self.least_rows)
        if self.checked_passes < 0:
            raise bad_parameter("Limits", "checked_passes", "0 or more", self.checked_passes)
        if not (isfinite(self.consent_seconds) and self.consent_seconds >= 1):
            raise bad_parameter("Limits", "consent_seconds", "a number of seconds from 1 on", self.consent_seconds)

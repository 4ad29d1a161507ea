"""Window: the hours of the week in which a party consents, in UTC."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from modelkeep.core.errors import bad_parameter

_Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
WEEKDAYS: tuple[_Weekday, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MINUTE = 60
_DAY = 24 * 60 * _MINUTE
_WEEK = 7 * _DAY
MONDAY = 4 * _DAY  # the first Monday of the seconds since 1970, which began on a Thursday


@dataclass(frozen=True)
class Window:
    """From `start` until just before `until` on each of the weekdays, "hours:minutes" in UTC.

    A window that ends no later than it starts goes on into the next day: "22:00" until "06:00", and "00:00" until
    "00:00" is a whole day. Its weekday is the one on which it starts.

    >>> office = Window(("mon", "tue"), "09:00", "17:00")
    >>> monday = datetime(2024, 1, 1, 16, 59, tzinfo=UTC).timestamp()
    >>> office.wait(monday), office.wait(monday + 60) / 3600  # seconds until it is open
    (0.0, 16.0)
    """

    weekdays: tuple[_Weekday, ...]
    start: str
    until: str

    def __post_init__(self) -> None:
        if not self.weekdays or not set(self.weekdays) <= set(WEEKDAYS):
            raise bad_parameter("Window", "weekdays", f"some of {', '.join(WEEKDAYS)}", self.weekdays)
        for name, value in (("start", self.start), ("until", self.until)):
            if not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", value, re.ASCII):
                raise bad_parameter("Window", name, 'a time from "00:00" to "23:59"', value)

    def wait(self, now: float) -> float:
        """How many seconds after `now` (seconds since 1970) it is open; 0 if it is open now."""
        length = (_seconds(self.until) - _seconds(self.start)) % _DAY or _DAY
        waits = []
        for weekday in self.weekdays:
            opened = (now - MONDAY - WEEKDAYS.index(weekday) * _DAY - _seconds(self.start)) % _WEEK  # seconds ago
            waits.append(0.0 if opened < length else _WEEK - opened)
        return min(waits)

    def __str__(self) -> str:
        return f"{', '.join(self.weekdays)} {self.start}–{self.until} UTC"


def at(time: float) -> str:
    """A time for a sentence.

    >>> at(1704110400.0)
    'mon 2024-01-01 12:00:00 UTC'
    """
    moment = datetime.fromtimestamp(time, UTC)
    return f"{WEEKDAYS[moment.weekday()]} {moment:%Y-%m-%d %H:%M:%S} UTC"


def _seconds(time: str) -> int:
    hours, minutes = time.split(":")
    return (int(hours) * 60 + int(minutes)) * _MINUTE

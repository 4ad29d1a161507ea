"""Gateway: what a guard's gateway says of itself, asked with the operator's key that a person gave."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from pydantic import BaseModel, ValidationError

from modelkeep.core.errors import GuardError, InputError
from modelkeep.report.page import Card

_SECONDS = 3.0
_MOST_BYTES = 4_000_000
_SHOWN = 300  # seconds of traffic


@dataclass(frozen=True)
class Watched:
    """A gateway that is watched. The key is kept in memory alone, and sent to this address alone."""

    address: str
    key: str = field(repr=False)

    @classmethod
    def of(cls, address: str, key: str) -> Watched:
        """The gateway at `http://HOST:PORT`, as a person wrote it."""
        parts = urlsplit(address.strip())
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
            raise InputError(f"The address must be such as http://127.0.0.1:8000. Got '{address}'.")
        if not key.strip() or not key.strip().isascii():
            raise InputError("The page of a gateway needs the operator's key: `modelkeep guard keys add operator`.")
        return cls(f"{parts.scheme}://{parts.netloc}", key.strip())


class Traffic(BaseModel):
    """Queries and refusals, second by second, and the rate of late."""

    per_second: list[int]
    refused_per_second: list[int]
    rate: float


class Suspicion(BaseModel):
    """What the query monitor thinks of somebody who asks."""

    verdict: str


class Principal(BaseModel):
    """Somebody who asks."""

    name: str
    revoked: bool
    spent: int
    left: int | None
    rate: float
    refused: int
    suspicion: Suspicion | None = None


class Overview(BaseModel):
    """What a gateway tells its operator, as far as it is shown here."""

    model: str
    version: str
    defence: str
    epsilon: float
    epoch: str
    up_seconds: int
    store: str
    traffic: Traffic
    answered: int
    refused: dict[str, int]
    latency_ms: dict[str, float] | None
    principals: list[Principal]
    not_shown: int

    @property
    def cards(self) -> tuple[Card, ...]:
        """The main measures."""
        refused = sum(self.refused.values())
        by_status = ", ".join(f"{status}: {count:,}" for status, count in self.refused.items()) or "none"
        minutes, seconds = divmod(self.up_seconds, 60)
        slow = self.latency_ms
        return (
            Card("Queries now", f"{self.traffic.rate:.1f}/s", "queries per second, of late"),
            Card("Answered", f"{self.answered:,}", f"in {minutes // 60} h {minutes % 60:02d} min {seconds:02d} s"),
            Card("Refused requests", f"{refused:,}", by_status),
            Card("Latency", "–", "no request yet")
            if slow is None
            else Card("Latency", f"{slow['p50']:.1f} ms", f"median; p90 {slow['p90']:.1f}, p99 {slow['p99']:.1f} ms"),
        )

    @property
    def busiest(self) -> int:
        """The most requests of one second that is shown."""
        answered, refused = self.traffic.per_second[-_SHOWN:], self.traffic.refused_per_second[-_SHOWN:]
        return max((a + b for a, b in zip(answered, refused, strict=True)), default=0)

    @property
    def bars(self) -> list[dict[str, float]]:
        """Answered and refused of the last minutes, as parts of a field of `_SHOWN` by 100."""
        answered, refused = self.traffic.per_second[-_SHOWN:], self.traffic.refused_per_second[-_SHOWN:]
        most = max(1, self.busiest)
        return [
            {"x": i, "answered": 100 * a / most, "refused": 100 * b / most}
            for i, (a, b) in enumerate(zip(answered, refused, strict=True))
            if a or b
        ]


def read_overview(watched: Watched) -> Overview:
    """Ask the gateway. A redirect is not followed: the key is for one address."""
    request = Request(f"{watched.address}/dashboard/data", headers={"Authorization": f"Bearer {watched.key}"})
    try:
        with _opener.open(request, timeout=_SECONDS) as answer:
            body = answer.read(_MOST_BYTES + 1)
    except HTTPError as error:
        error.close()
        raise GuardError(_refusal(watched.address, error.code)) from error
    except (OSError, ValueError) as error:
        raise GuardError(f"No gateway answers at {watched.address}: {getattr(error, 'reason', error)}.") from error
    try:
        return Overview.model_validate(json.loads(body[:_MOST_BYTES]))
    except (ValueError, ValidationError) as error:
        raise GuardError(f"What answers at {watched.address} is not a gateway of this version of ModelKeep.") from error


def _refusal(address: str, status: int) -> str:
    if status in (401, 403):
        return f"The gateway at {address} does not know this key as the operator's."
    if status == 404:
        return f"The gateway at {address} shows no page: give it a [dashboard] section in its settings."
    return f"The gateway at {address} answered {status}."


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


_opener = build_opener(_NoRedirect)

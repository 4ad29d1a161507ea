"""The operator's page: traffic, budgets, centroids, and how good a thief's copy would be by now.

One HTML page that needs nothing else, at /dashboard, and the same as JSON at /dashboard/data; both need the operator's
key. It is rendered whole here, so it works without scripts; a script only fetches it again every two seconds.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from modelkeep.core.errors import MissingExtra
from modelkeep.guard.gateway.overview import Fidelity, collect
from modelkeep.guard.gateway.service import Service
from modelkeep.guard.gateway.traffic import LATELY, SECONDS

try:
    from fastapi import FastAPI, Request, Response
except ImportError as missing:
    raise MissingExtra("guard", "fastapi", "The gateway") from missing

PRIVATE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}


def mount(app: FastAPI, service: Service, curve: Path | None = None) -> None:
    """Add the page and its data to the gateway; `curve` is a file that `modelkeep extract` wrote."""
    fidelity = None if curve is None else Fidelity.read(curve)
    gate = service.gate
    service.traffic.centroids = lambda: sum(gate.centroids.length(label) for label in range(gate.policy.classes))

    async def page(request: Request) -> Response:
        await service.principals.operator(request.headers.get("authorization"))
        nonce = secrets.token_urlsafe(16)
        policy = (
            f"default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        return Response(
            render(await collect(service, fidelity), nonce),
            media_type="text/html",
            headers={"Content-Security-Policy": policy, **PRIVATE},
        )

    async def data(request: Request) -> Response:
        await service.principals.operator(request.headers.get("authorization"))
        told = await collect(service, fidelity)
        return Response(json.dumps(told), media_type="application/json", headers=PRIVATE)

    app.get("/dashboard", include_in_schema=False)(page)
    app.get("/dashboard/data", include_in_schema=False)(data)


def render(told: dict[str, Any], nonce: str) -> str:
    """The page. Pictures are drawn in a field of 300 by 100."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("modelkeep.guard.gateway"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    per_second, refused = told["traffic"]["per_second"], told["traffic"]["refused_per_second"]
    most = max(1, *(a + b for a, b in zip(per_second, refused, strict=True)))
    moved = told["distortion"]
    return environment.get_template("dashboard.html").render(
        told,
        nonce=nonce,
        minutes=SECONDS // 60,
        lately=LATELY,
        busiest=most,
        answered_bars=_bars(per_second, most),
        refused_bars=_bars(refused, most, upon=per_second),
        growth_line=_growth(told["centroids"]["growth"], told["at"]),
        class_bars=_bars(told["centroids"]["per_class"], max(1, *told["centroids"]["per_class"])),
        moved_bars=_bars(moved["counts"], max(1, *moved["counts"])),
        clock=time.strftime("%H:%M:%S UTC", time.gmtime(told["at"])),
    )


def _bars(values: Sequence[float], most: float, upon: Sequence[float] | None = None) -> list[dict[str, float]]:
    """Rectangles side by side, as high as the values are against `most`, standing `upon` others."""
    width = 300 / len(values)
    below = upon if upon is not None else [0.0] * len(values)
    return [
        {
            "x": round(i * width + 0.1 * width, 3),
            "y": round(100 - 100 * (value + base) / most, 3),
            "width": round(0.8 * width, 3),
            "height": round(100 * value / most, 3),
        }
        for i, (value, base) in enumerate(zip(values, below, strict=True))
        if value > 0
    ]


def _growth(points: Sequence[Sequence[int]], now: int) -> str:
    """The corners of a line of steps up to now, for an SVG polyline."""
    shown = [(at - now + SECONDS, count) for at, count in points if at > now - SECONDS]
    if not shown:
        return ""
    most = max(1, *(count for _, count in shown))
    corners, last = [], shown[0][1]
    for at, count in [*shown, (SECONDS, shown[-1][1])]:
        corners += [(at, last), (at, count)]
        last = count
    return " ".join(f"{300 * at / SECONDS:.1f},{100 - 96 * count / most:.1f}" for at, count in corners)

"""The gateway's live view against a real server on loopback: what is shown, refused, and never sent elsewhere."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from modelkeep.core.errors import GuardError, InputError
from modelkeep.web.gateway import Watched, read_overview
from web.conftest import Browser

KEY = "mk_the-operators-key"
TOLD: dict[str, Any] = {
    "model": "<b>digits</b>",
    "version": "1",
    "defence": "modelguard-s",
    "epsilon": 1.0,
    "epoch": "0123456789abcdef",
    "up_seconds": 3723,
    "store": "reachable",
    "traffic": {"per_second": [0] * 599 + [8], "refused_per_second": [0] * 599 + [2], "rate": 0.8},
    "answered": 1234,
    "refused": {"429": 2},
    "latency_ms": {"p50": 1.5, "p90": 2.5, "p99": 9.0},
    "principals": [
        {
            "name": "<i>mallory</i>",
            "revoked": False,
            "spent": 1234,
            "left": None,
            "rate": 0.8,
            "refused": 2,
            "suspicion": {"verdict": "unusual"},
        }
    ],
    "not_shown": 0,
}


class Gateway(ThreadingHTTPServer):
    """What a gateway answers to its operator, or anything else; it keeps the keys that it was sent."""

    status = 200
    body = json.dumps(TOLD).encode()
    location = ""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.keys: list[str | None] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        gateway = self.server
        assert isinstance(gateway, Gateway)
        key = self.headers["Authorization"]
        gateway.keys.append(key)
        status = gateway.status if key == f"Bearer {KEY}" else 401
        self.send_response(status)
        if gateway.location:
            self.send_header("Location", gateway.location)
        self.end_headers()
        self.wfile.write(gateway.body if status == 200 else b"")

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@contextmanager
def answering() -> Iterator[Gateway]:
    gateway = Gateway()
    thread = threading.Thread(target=gateway.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield gateway
    finally:
        gateway.shutdown()
        thread.join()
        gateway.server_close()


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with answering() as one:
        yield one


def test_what_the_gateway_says_is_shown_and_its_names_stay_text(browser: Browser, gateway: Gateway) -> None:
    told = browser.post("/api/guard/watch", {"address": f"{gateway.address}/dashboard?x=1", "key": KEY})
    assert told.json() == {"address": gateway.address, "model": TOLD["model"]}
    page = browser.get("/guard").text
    for shown in ("1,234", "429: 2", "0.8/s", "1 h 02 min 03 s", "&lt;i&gt;mallory&lt;/i&gt;", "unusual"):
        assert shown in page
    for hidden in ("<b>digits", "<i>mallory", KEY):
        assert hidden not in page
    assert page.count('<rect class="answered"') == page.count('<rect class="refused"') == 1
    gateway.status = 503
    assert "answered 503" in browser.get("/guard").text
    browser.post("/api/guard/leave")
    assert gateway.address not in browser.get("/guard").text


@pytest.mark.parametrize(
    "address", ["file:///etc/passwd", "ftp://127.0.0.1", "127.0.0.1:8000", "http://", "http://a@b"]
)
def test_only_an_address_of_the_web_is_asked(address: str) -> None:
    with pytest.raises(InputError, match="must be such as"):
        Watched.of(address, KEY)


def test_the_key_goes_to_no_other_address(browser: Browser, gateway: Gateway) -> None:
    with answering() as elsewhere:
        gateway.status, gateway.location = 302, f"{elsewhere.address}/dashboard/data"
        refused = browser.post("/api/guard/watch", {"address": gateway.address, "key": KEY})
        assert refused.status_code == 400
        assert elsewhere.keys == []
    assert KEY not in repr(Watched.of(gateway.address, KEY))


def test_what_is_no_gateway_is_said(gateway: Gateway) -> None:
    with pytest.raises(GuardError, match="does not know this key"):
        read_overview(Watched.of(gateway.address, "another key"))
    gateway.body = b"<html>"
    with pytest.raises(GuardError, match="is not a gateway"):
        read_overview(Watched.of(gateway.address, KEY))
    gateway.body = b"x" * 5_000_000
    with pytest.raises(GuardError, match="is not a gateway"):
        read_overview(Watched.of(gateway.address, KEY))
    with pytest.raises(InputError, match="needs the operator's key"):
        Watched.of(gateway.address, " ")
    address = gateway.address
    gateway.shutdown()
    gateway.server_close()
    with pytest.raises(GuardError, match="No gateway answers"):
        read_overview(Watched.of(address, KEY))

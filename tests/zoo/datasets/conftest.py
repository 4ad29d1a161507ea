"""What the data tests share: a web server on loopback that can misbehave, and files in the formats of real sets."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


@dataclass
class Site:
    """A server on 127.0.0.1. `cuts` are the byte counts after which the next connections are closed."""

    address: str = ""
    pages: dict[str, bytes] = field(default_factory=dict)
    cuts: list[int] = field(default_factory=list)
    ranges: bool = True
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    stall: threading.Event | None = None  # if set: send the first half, then wait for this event


@pytest.fixture
def site() -> Iterator[Site]:
    """A running server; the test fills in its pages."""
    served = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            served.asked.append((self.path, wanted))
            body = served.pages.get(self.path)
            if body is None:
                self.send_error(404)
                return
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and served.ranges else 0
            if start and start >= len(body):
                self.send_error(416)
                return
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            self.send_header("Content-Length", str(len(body) - start))
            self.end_headers()
            rest = body[start:]
            if served.stall is not None:
                self.wfile.write(rest[: len(rest) // 2])
                self.wfile.flush()
                served.stall.wait(30)
                return
            self.wfile.write(rest[: served.cuts.pop(0)] if served.cuts else rest)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        served.address = f"http://127.0.0.1:{server.server_port}"
        yield served
        if served.stall is not None:
            served.stall.set()
        server.shutdown()
        thread.join()

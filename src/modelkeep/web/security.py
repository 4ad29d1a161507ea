"""Security: who may ask the application at all, and for what.

It listens on loopback, where every page that the browser has open can send requests too. So each request must name
loopback as its host (else a name of the net may have been pointed here: DNS rebinding); it must carry the cookie that
was given for the token in the printed address; and what changes something must be a POST from one of our own pages.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from hmac import compare_digest
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from modelkeep.core.errors import MissingExtra
from modelkeep.web.pages import LET_IN
from modelkeep.web.problems import Problem, problem_response

try:
    from starlette.datastructures import MutableHeaders
    from starlette.requests import Request
    from starlette.responses import RedirectResponse, Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
except ImportError as missing:
    raise MissingExtra("ui", "fastapi", "modelkeep ui") from missing

ENTRANCE = "/enter"
CSRF_HEADER = "X-ModelKeep-CSRF"
MOST_BYTES = 2_000_000  # of a request's body: a form, a small picture
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_SAFE = ("GET", "HEAD")
_OPEN = ("/static/",)  # no secret is there, and the page that refuses is to be readable
HEADERS = {
    # Charts and interval bars have style attributes; no script may stand in a page.
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; style-src 'self'; "
    "style-src-attr 'unsafe-inline'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Gate:
    """The middleware in front of everything. `token` opens it once; then the browser has a cookie."""

    def __init__(self, app: ASGIApp, token: str, csrf: str) -> None:
        self._app = app
        self._token: str | None = token
        self._csrf = csrf
        self._session = secrets.token_urlsafe(32)
        # Cookies know no ports: two applications on this machine must not take each other's.
        self._cookie = f"modelkeep-{secrets.token_hex(4)}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on; every answer gets the headers."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return  # no websocket is offered

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        request = Request(scope, receive)
        try:
            self._check_origin_of(request)
            answer = self._enter(request)
            if answer is None:
                self._check_cookie(request)
                body = await _read_body(request)
        except Problem as problem:
            answer = problem_response(request, problem)
        if answer is not None:
            await answer(scope, receive, send_with_headers)
        else:
            await self._app({**scope, LET_IN: True}, _again(body, receive), send_with_headers)

    def _check_origin_of(self, request: Request) -> None:
        headers = request.headers
        host = headers.getlist("host")
        if len(host) != 1 or urlsplit(f"//{host[0]}").hostname not in _LOOPBACK:
            raise Problem(403, "Open this page as 127.0.0.1 or localhost, on the machine where it runs.")
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise Problem(403, "Another web site asked for this, and got nothing.")
        if request.method in _SAFE:
            return
        if request.method != "POST":
            raise Problem(405, f"There is no {request.method} here: GET reads and POST changes.")
        origin = headers.get("origin")
        if origin != f"http://{host[0]}" and not (origin is None and headers.get("sec-fetch-site") == "same-origin"):
            raise Problem(403, "Another web site asked for a change, and nothing was changed.")
        if not compare_digest(headers.get(CSRF_HEADER, "").encode(), self._csrf.encode()):
            raise Problem(403, "The request did not come from a page of this run. Load the page again.")

    def _enter(self, request: Request) -> Response | None:
        """The answer to somebody who comes with the token; None for all other requests."""
        if request.url.path != ENTRANCE:
            return None
        given = parse_qs(request.url.query).get("token", [""])[0]
        if self._token is None or not compare_digest(given.encode(), self._token.encode()):
            if self._is_known(request):  # the address was opened again in the same browser
                return RedirectResponse("/", 303)
            raise Problem(
                401,
                "This address was used already, or is not the one that was printed. Stop `modelkeep ui`, start it "
                "again, and open the address that it prints.",
            )
        self._token = None
        answer = RedirectResponse("/", 303)
        answer.set_cookie(self._cookie, self._session, httponly=True, samesite="strict", path="/")
        return answer

    def _check_cookie(self, request: Request) -> None:
        if request.url.path.startswith(_OPEN) or self._is_known(request):
            return
        raise Problem(401, "Open the address that `modelkeep ui` printed when it started: it lets this browser in.")

    def _is_known(self, request: Request) -> bool:
        given = _cookies(request.headers.getlist("cookie")).get(self._cookie, "")
        return compare_digest(given.encode(), self._session.encode())


def _cookies(headers: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for header in headers:
        try:
            found |= {name: each.value for name, each in SimpleCookie(header).items()}
        except CookieError:
            continue
    return found


async def _read_body(request: Request) -> bytes:
    """The body of a request, refused where it is larger than a form can be."""
    told = request.headers.get("content-length", "")
    if told and not (told.isdecimal() and len(told) < 12 and int(told) <= MOST_BYTES):
        raise Problem(413, f"A request may have at most {MOST_BYTES:,} bytes.")
    body = b""
    if request.method not in _SAFE:
        async for part in request.stream():
            body += part
            if len(body) > MOST_BYTES:
                raise Problem(413, f"A request may have at most {MOST_BYTES:,} bytes.")
    return body


def _again(body: bytes, receive: Receive) -> Receive:
    """What receives the body that was read, and then what comes after it."""
    told = False

    async def receive_again() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again

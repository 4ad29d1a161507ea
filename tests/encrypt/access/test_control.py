"""Attempts to get around the access control of a server, over its HTTP interface, with guard's real store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from encrypt.access.test_policy import policy
from modelkeep.core.errors import InputError
from modelkeep.encrypt.access.control import AccessControl, GuardedApplication
from modelkeep.guard.gateway.principals import OPERATOR, Principals, add_key
from modelkeep.guard.store import Principal, Store, open_store

ACTIONS = {"POST /ask": "ask", "GET /log": "log"}


class Server:
    """A guarded application that counts what reaches it, and the keys of its principals."""

    def __init__(self, folder: Path) -> None:
        self.store: Store = open_store(f"sqlite:///{folder / 'guard.sqlite3'}")
        self.keys = {name: add_key(self.store, Principal(name, 3, None)) for name in ("anna", "ben", "carl", "dora")}
        self.keys[OPERATOR] = add_key(self.store, Principal(OPERATOR, None, None))
        self.reached: list[str] = []
        self.policy = policy(folder)

    def ask(
        self, method: str, path: str, headers: list[tuple[str, str]] | None = None, who: str | None = None
    ) -> httpx.Response:
        """One request in an event loop of its own."""
        sent = list(headers or [])
        if who is not None:
            sent.append(("Authorization", f"Bearer {self.keys[who]}"))

        async def run() -> httpx.Response:
            app = FastAPI()

            @app.api_route("/{path:path}", methods=["GET", "POST", "PUT", "HEAD"])
            def reach(path: str) -> str:
                self.reached.append(path)
                return "secret"

            principals = Principals(self.store)
            guarded = GuardedApplication(app, AccessControl(self.policy, principals), ACTIONS)
            transport = httpx.ASGITransport(app=guarded)
            async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
                answer = await client.request(method, path, headers=sent)
            await principals.close()
            return answer

        return asyncio.run(run())


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    yield made
    made.store.close()


def test_the_permitted_are_answered(server: Server) -> None:
    assert server.ask("POST", "/ask", who="anna").status_code == 200
    assert server.ask("GET", "/log", who="ben").status_code == 200
    assert server.reached == ["ask", "log"]


@pytest.mark.parametrize(
    ("method", "path", "who", "status"),
    [
        ("POST", "/ask", None, 401),
        ("POST", "/ask", "ben", 403),  # another role
        ("POST", "/ask", "carl", 403),  # no attributes
        ("POST", "/ask", "dora", 403),  # a key of guard, and not in the policy
        ("POST", "/ask", OPERATOR, 401),  # opens the dashboard only
        ("GET", "/log", "anna", 403),
        ("GET", "/ask", "anna", 403),  # no rule for the method
        ("HEAD", "/ask", "anna", 403),
        ("POST", "/ask/", "anna", 403),
        ("POST", "/ASK", "anna", 403),
        ("POST", "//ask", "anna", 403),
        ("POST", "/log/../ask?x=/log", "dora", 403),
        ("GET", "/log/%2e%2e/ask", "ben", 403),
        ("GET", "/openapi.json", "anna", 403),
        ("GET", "/", "anna", 403),
    ],
)
def test_all_others_are_denied_and_nothing_reaches_the_model(
    server: Server, method: str, path: str, who: str | None, status: int
) -> None:
    answer = server.ask(method, path, who=who)
    assert answer.status_code == status
    assert server.reached == []
    assert "secret" not in answer.text
    assert "clinician" not in answer.text


def test_headers_do_not_give_attributes(server: Server) -> None:
    claims = [("X-Role", "clinician"), ("role", "clinician"), ("ward", "a"), ("X-Principal", "anna")]
    assert server.ask("POST", "/ask", claims, who="dora").status_code == 403


def test_two_keys_in_one_request_are_refused(server: Server) -> None:
    both = [("Authorization", f"Bearer {server.keys['anna']}")]
    assert server.ask("POST", "/ask", both, who="dora").status_code == 400


def test_a_changed_or_revoked_key_is_refused(server: Server) -> None:
    changed = [("Authorization", f"Bearer {server.keys['anna'][:-1]}")]
    assert server.ask("POST", "/ask", changed).status_code == 401
    server.store.revoke("anna")
    assert server.ask("POST", "/ask", who="anna").status_code == 401
    assert server.reached == []


def test_the_denied_spend_nothing_and_are_written_down(server: Server) -> None:
    for _ in range(5):
        server.ask("POST", "/ask", who="ben")
    assert server.store.spent().get("ben", 0) == 0
    denied = [(event.principal, event.action) for event in server.store.events()]
    assert denied == [("ben", "denied")] * 5
    written = " ".join(event.detail for event in server.store.events())
    assert server.keys["ben"] not in written


def test_a_used_up_budget_ends_the_answers(server: Server) -> None:
    statuses = [server.ask("POST", "/ask", who="anna").status_code for _ in range(4)]
    assert statuses == [200, 200, 200, 429]


def test_open_principals_are_refused(server: Server) -> None:
    with pytest.raises(InputError, match="everybody is anonymous"):
        AccessControl(server.policy, Principals(server.store, open=True))


def test_a_websocket_is_closed(server: Server) -> None:
    sent: list[object] = []

    async def send(message: object) -> None:
        sent.append(message)

    async def run() -> None:
        principals = Principals(server.store)
        guarded = GuardedApplication(FastAPI(), AccessControl(server.policy, principals), ACTIONS)
        await guarded({"type": "websocket", "path": "/ask", "headers": []}, None, send)  # type: ignore[arg-type]
        await principals.close()

    asyncio.run(run())
    assert sent == [{"type": "websocket.close", "code": 1008}]

"""Access control in front of a server: a request passes if its key is one of guard's and a rule permits its action.

It is the part of Saha2020, eq. 3.4, that can be had: s₁ ∈ S_permitted is checked by the server, which the owner of the
model runs. That a network itself refuses other keys, in the hands of an adversary, would need an obfuscator (3.4.1).
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from http import HTTPStatus
from typing import Any

from modelkeep.core.errors import InputError
from modelkeep.encrypt.access.policy import AccessPolicy
from modelkeep.guard.gateway.principals import Principals
from modelkeep.guard.refusals import Malformed, Refusal
from modelkeep.guard.store.store import Event, Principal

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class Forbidden(Refusal):
    """The key is known, and may not do this."""

    status = HTTPStatus.FORBIDDEN.value
    code = "PERMISSION_DENIED"


class AccessControl:
    """Decides who may do what. Keys, budgets and revocation are guard's; attributes and rules are the policy's."""

    def __init__(self, policy: AccessPolicy, principals: Principals) -> None:
        if principals.open:
            raise InputError("Access control needs principals with keys. These are open: everybody is anonymous.")
        self.policy, self.principals = policy, principals

    async def admit(self, authorization: str | None, action: str, queries: int = 1) -> Principal:
        """The principal whose key the header bears, if it may do this; its budget is charged only then.

        Raises:
            Refusal: 401 without a known key, 403 where no rule permits, 429 where the budget is used up.
        """
        principal = await self.principals.admit(authorization)
        if not self.policy.permits(principal.name, action):
            detail = json.dumps({"action": action})
            self.principals.store.write([Event(time.time(), principal.name, "denied", detail)])
            # No word of the rule, or a holder could learn which attribute to ask for.
            raise Forbidden("This key may not do that here. Ask the operator of this server for the permission.")
        await self.principals.spend(principal, queries)
        return principal


class GuardedApplication:
    """An ASGI application in front of another. A request whose method and path are not in `actions` is denied.

    `actions` maps `POST /ask` to the action whose rule decides, and `POST /ask/*` also what has one name more. Nothing
    of a denied request reaches the application.
    """

    def __init__(self, application: Application, control: AccessControl, actions: Mapping[str, str]) -> None:
        self._application, self._control, self._actions = application, control, dict(actions)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
            return
        if scope["type"] != "http":  # a websocket has no rule
            await send({"type": "websocket.close", "code": 1008})
            return
        try:
            await self._control.admit(_authorization(scope), self._action(scope["method"], scope["path"]))
        except Refusal as refusal:
            await _refuse(send, refusal)
            return
        await self._application(scope, receive, send)

    def _action(self, method: str, path: str) -> str:
        """What a request does; nothing that any rule could permit, where it is not listed."""
        above = path.rpartition("/")[0]
        return self._actions.get(f"{method} {path}") or self._actions.get(f"{method} {above}/*", "")


def _authorization(scope: Scope) -> str | None:
    """The one header that names the key. Two of them could be read differently here and behind."""
    found = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
    if len(found) > 1:
        raise Malformed("A request bears one Authorization header. Got several.")
    return found[0].decode("latin-1") if found else None


async def _refuse(send: Send, refusal: Refusal) -> None:
    body = json.dumps({"error": refusal.message}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(name.lower().encode(), value.encode()) for name, value in refusal.headers.items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

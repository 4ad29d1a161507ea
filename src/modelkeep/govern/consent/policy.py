"""Policy: what a party consents to, as data that can be agreed on, signed and read by the others."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, get_args
from urllib.parse import urlsplit

from modelkeep.core.errors import ConsentRefused, InputError, bad_parameter, join_names
from modelkeep.govern.consent.board import Board
from modelkeep.govern.consent.windows import Window, at
from modelkeep.govern.passes import Pass, Purpose, read

PURPOSES: tuple[Purpose, ...] = get_args(Purpose)
PERSONAL: tuple[Purpose, ...] = ("release", "check")  # weights leave: at every other party a person decides
USES: tuple[Purpose, ...] = tuple(purpose for purpose in PURPOSES if purpose not in PERSONAL)
HERE = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Rate:
    """At most `passes` in any `seconds` that follow each other. Every pass that was begun counts, completed or not."""

    passes: int
    seconds: float

    def __post_init__(self) -> None:
        if self.passes < 1:
            raise bad_parameter("Rate", "passes", "1 or more", self.passes)
        if not (math.isfinite(self.seconds) and self.seconds > 0):
            raise bad_parameter("Rate", "seconds", "a number of seconds above 0", self.seconds)

    def wait(self, begun: Iterable[float], now: float) -> float:
        """How many seconds to wait, by when earlier passes were begun (seconds since 1970, in any order).

        >>> Rate(2, 60.0).wait([100.0, 110.0], now=130.0)
        30.0
        """
        recent = sorted(each for each in begun if each > now - self.seconds)
        if len(recent) < self.passes:
            return 0.0
        return min(self.seconds, recent[-self.passes] + self.seconds - now)


@dataclass(frozen=True)
class Policy:
    """The rules that a pass must keep, all of them; the default has none, so it consents to everything.

    Args:
        purposes: What a pass may be for.
        askers: Which parties may ask; None: all.
        most: How many passes at most for a purpose, over the whole agreement.
        rate: How many passes per second, on average; `burst` of them at once after a pause.
        burst: See `rate`.
        rates: How many passes in a while, for a purpose, such as 100 inferences an hour.
        windows: The hours of the week; none: always.
        data: The fingerprints of the inputs that may pass; None: all.
        labels: The fingerprints of the labels that they may be taught or judged by; None: all.
        command: An external approver: it gets the pass as JSON on stdin and consents with exit status 0; the first
            line that it writes is its reason. It is started directly, not by a shell.
        webhook: An external approver at an http(s) address: the pass is posted as JSON, and an answer 2xx with
            `{"consent": true}` consents; a `"reason"` beside it goes to the asker.
        webhook_token_env: The environment variable that has the webhook's bearer token. Only its name is agreed on.
        timeout: Seconds that an external approver may take.
        human: Whether a person has to say `modelkeep govern approve` first; to release and to check weights, always.
        board: The people of whom some have to say it, each with a key of their own.

    >>> Policy(purposes=("infer",), most={"infer": 1000}).most
    {'infer': 1000}
    """

    purposes: tuple[Purpose, ...] = PURPOSES
    askers: tuple[str, ...] | None = None
    most: Mapping[Purpose, int] = field(default_factory=dict)
    rate: float | None = None
    burst: int = 1
    windows: tuple[Window, ...] = ()
    data: tuple[str, ...] | None = None
    labels: tuple[str, ...] | None = None
    command: tuple[str, ...] | None = None
    webhook: str | None = None
    webhook_token_env: str | None = None
    timeout: float = 10.0
    human: bool = False
    rates: Mapping[Purpose, Rate] = field(default_factory=dict)
    board: Board | None = None

    def __post_init__(self) -> None:
        if not set(self.purposes) <= set(PURPOSES):
            raise bad_parameter("Policy", "purposes", f"some of {', '.join(PURPOSES)}", self.purposes)
        if not set(self.most) <= set(PURPOSES) or any(limit < 0 for limit in self.most.values()):
            raise bad_parameter("Policy", "most", f"a number from 0 for each of {', '.join(PURPOSES)}", self.most)
        if not set(self.rates) <= set(PURPOSES):
            raise bad_parameter("Policy", "rates", f"a rate for some of {', '.join(PURPOSES)}", dict(self.rates))
        if self.rate is not None and not (math.isfinite(self.rate) and self.rate > 0):
            raise bad_parameter("Policy", "rate", "a number of passes per second above 0", self.rate)
        if self.burst < 1:
            raise bad_parameter("Policy", "burst", "1 or more", self.burst)
        if not 0 < self.timeout <= 600:
            raise bad_parameter("Policy", "timeout", "above 0 and at most 600 seconds", self.timeout)
        if self.command is not None and (not self.command or not self.command[0] or "\0" in "".join(self.command)):
            raise bad_parameter("Policy", "command", "a program and its arguments", self.command)
        _check_webhook(self.webhook, self.webhook_token_env)

    def check(self, of: Pass, now: float) -> None:
        """Refuse a pass by the rules that need no memory: purpose, asker, data, hours."""
        if of.purpose not in self.purposes:
            known = join_names(self.purposes) or "none"
            raise ConsentRefused(f"No consent to {of}: its purpose is not allowed. Purposes allowed: {known}.")
        if self.askers is not None and of.asker not in self.askers:
            known = join_names(self.askers) or "no party"
            raise ConsentRefused(f"No consent to {of}: '{of.asker}' may not ask. Who may: {known}.")
        data = self.data if of.purpose in USES else None
        labels = self.labels if of.labels or of.purpose in ("train", "evaluate") else None
        for what, used, allowed in (("data", of.data, data), ("labels", of.labels, labels)):
            if allowed is not None and used not in allowed:
                known = join_names([one[:16] for one in allowed]) or "none"
                raise ConsentRefused(
                    f"No consent to {of} with the {what} '{used[:16]}'. Fingerprints of the {what} allowed: {known}."
                )
        wait = min((window.wait(now) for window in self.windows), default=0.0)
        if wait:
            raise ConsentRefused(
                f"No consent to {of} at {at(now)}. The hours: {join_names([str(window) for window in self.windows])}. "
                f"The next begin at {at(now + wait)}."
            )

    def values(self) -> dict[str, Any]:
        """What goes into JSON, and comes back with `read_policy`."""
        return asdict(self)


def read_policy(values: Any) -> Policy:
    """A policy from JSON values; a field that is unknown, or of another type, is refused.

    >>> read_policy({"purposes": ["evaluate", "infer"], "rate": 2.5, "human": True}).purposes
    ('evaluate', 'infer')
    """
    return read(Policy, values)


def _check_webhook(webhook: str | None, token: str | None) -> None:
    """Only plain web addresses: nothing that opens files, no secret in the address, no token for all to overhear."""
    if webhook is None:
        if token is not None:
            raise InputError("The policy names a 'webhook_token_env' and no 'webhook' that would get the token.")
        return
    try:
        parts = urlsplit(webhook)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        usable = usable and webhook.isascii() and not re.search(r"[\s\x00-\x1f\x7f]", webhook)
    except ValueError:
        usable = False
    if not usable:
        raise bad_parameter("Policy", "webhook", "an address that begins with https:// or http://", webhook)
    if "@" in parts.netloc:
        raise InputError("A webhook's address may have no user and password: all parties read it. Use a token.")
    if token is None:
        return
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", token):
        raise bad_parameter("Policy", "webhook_token_env", "the name of an environment variable", token)
    if parts.scheme != "https" and parts.hostname not in HERE:
        raise InputError("A webhook that gets a token must be at an https:// address (or on this machine).")

"""Roles: a whole computation from the side of one party or of the dealer, over the wire."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import TypeVar

from torch import Tensor

from modelkeep.encrypt.shares.computation import Computation
from modelkeep.encrypt.shares.dealer import Dealer
from modelkeep.encrypt.shares.meeting import Meeting, join_as_dealer, join_as_party
from modelkeep.encrypt.shares.parties import Parties
from modelkeep.encrypt.shares.programs import Secrets, make_program
from modelkeep.encrypt.shares.traffic import Traffic
from modelkeep.govern.identity import Identity
from modelkeep.govern.wire.listener import Listener

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a role has at the end: the results that were revealed to it, and what crossed."""

    found: list[Tensor] = field(repr=False)
    traffic: Traffic
    wire_sent: int
    seconds: float


def run_party(
    meeting: Meeting,
    identity: Identity,
    listener: Listener,
    addresses: Mapping[str, str],
    secrets: Secrets,
    *,
    seed: int | None = None,
) -> Outcome:
    """Take part as one of the three parties. Whatever goes wrong closes all lines, so that no other party waits."""
    channel, keys = join_as_party(meeting, identity, listener, addresses, seed=seed)
    place = meeting.parties.index(identity.name)
    parties = Parties(meeting.ring, (place,), channel, keys.mask_streams((place,)), keys.input_streams())

    def run_pass(step: Callable[[Computation], T]) -> T:
        parties.begin_pass()
        found = step(parties)
        parties.end_pass()
        return found

    try:
        start = perf_counter()
        found = make_program(meeting.plan, secrets).run(run_pass)
        seconds = perf_counter() - start
        channel.finish()
        return Outcome([each for each in found if each is not None], channel.traffic, channel.wire_bytes[0], seconds)
    finally:
        channel.close()


def run_dealer(
    meeting: Meeting, identity: Identity, addresses: Mapping[str, str], *, seed: int | None = None
) -> Outcome:
    """Deal for the three parties, some passes ahead of them."""
    channel, keys = join_as_dealer(meeting, identity, addresses, seed=seed)
    dealer = Dealer(meeting.ring, keys.mask_streams(keys.masks))

    def run_pass(step: Callable[[Computation], T]) -> T:
        found = step(dealer)
        channel.deal(dealer.end_pass())
        return found

    try:
        start = perf_counter()
        make_program(meeting.plan, Secrets()).run(run_pass)
        channel.finish()
        return Outcome([], channel.traffic, channel.wire_bytes[0], perf_counter() - start)
    finally:
        channel.close()

"""Recording what crosses: an honest but curious party writes down all that it sees of the piece it does not hold.

It needs no consent for that, breaks no rule of the protocol and leaves no trace in any ledger: what crosses the
cuts is its own to keep. How much nearer it brings the party to the whole model is T6 of `modelkeep.completion`.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

import torch

from modelkeep.completion.recording import RecordedPass, Recording, Tensors
from modelkeep.core.errors import GovernError, bad_parameter
from modelkeep.govern.ledger.writer import What
from modelkeep.govern.passes import Pass
from modelkeep.govern.piece.computation import Computation
from modelkeep.govern.piece.payload import Payload
from modelkeep.govern.session.party import Party


@dataclass
class _Seen:
    """What has crossed in one micro-batch so far."""

    of: Pass
    rows: torch.Tensor
    payloads: dict[tuple[What, bool], Payload] = field(default_factory=dict)


class Recorder:
    """Keeps what crosses around the one piece that `party` does not hold, of the last `passes` micro-batches.

    Made before a run; afterwards `recording("train")` gives what was seen of the trainings' passes. A pass that runs
    again after a fault is kept once.
    """

    def __init__(self, party: Party, passes: int) -> None:
        if passes < 1:
            raise bad_parameter("Recorder", "passes", "at least 1", passes)
        agreement = party.agreement
        missing = [i for i, holder in enumerate(agreement.holders) if holder != party.name]
        if not missing or missing[-1] - missing[0] != len(missing) - 1 or len(missing) == len(agreement.holders):
            raise GovernError(
                f"'{party.name}' would have to hold all of the model but one stretch of it. It is held by: "
                f"{', '.join(agreement.holders)}."
            )
        expected = party.pieces.expected[True]
        if any(not spec.kind.startswith("torch.") for i in (missing[0], missing[-1] + 1) for spec in expected[i]):
            raise GovernError("Sizes cross the cut, not only tensors: such a piece cannot be recorded.")
        self._party, self._passes, self._missing = party, passes, missing
        self._seen: dict[str, OrderedDict[tuple[int, int], _Seen]] = {}
        party.passes.on_crossing = self._crossing

    def recording(self, purpose: str) -> Recording:
        """What was seen in passes for this purpose ("train", "infer", "evaluate")."""
        seen = list(self._seen.get(purpose, {}).values())
        if not seen:
            raise GovernError(f"'{self._party.name}' has seen no pass for '{purpose}' since it records.")
        if len(names := {one.of.data for one in seen}) > 1:
            raise GovernError(f"The recorded passes are of {len(names)} different inputs; record those of one.")
        cuts = self._party.agreement.cuts
        first, last = self._missing[0], self._missing[-1]
        return Recording(
            start=cuts[first - 1] if first > 0 else None,
            end=cuts[last] if last < len(cuts) else None,
            training=purpose == "train",
            data=seen[0].of.data,
            passes=tuple(_make_pass(one) for one in seen),
        )

    def _crossing(self, computation: Computation, what: What, at: int, part: int, payload: Payload) -> None:
        """Called by the party for all that it sends and gets: `at` counts the gaps between stages."""
        own = self._party.name
        others = [i for i, stage in enumerate(computation.route) if stage.holder != own and stage.pieces]
        into, out = others[0] - 1, others[-1]
        if at not in (into, out):
            return
        kept = self._seen.setdefault(computation.of.purpose, OrderedDict())
        key = (computation.of.number, part)
        if key not in kept:
            kept[key] = _Seen(computation.of, computation.rows(part))
            while len(kept) > self._passes:
                kept.popitem(last=False)
        copied = tuple(value.detach().clone() if isinstance(value, torch.Tensor) else value for value in payload.values)
        kept[key].payloads[what, at == out] = Payload(copied, payload.wants)


def _make_pass(seen: _Seen) -> RecordedPass:
    inputs, outputs = (seen.payloads.get(("activations", side)) for side in (False, True))
    return RecordedPass(
        rows=seen.rows,
        inputs=() if inputs is None else inputs.tensors,
        outputs=() if outputs is None else outputs.tensors,
        output_gradients=_gradients(outputs, seen.payloads.get(("gradients", True))),
        input_gradients=_gradients(inputs, seen.payloads.get(("gradients", False))),
    )


def _gradients(of: Payload | None, payload: Payload | None) -> Tensors:
    """The gradients beside the tensors that they are of: only those that want one get one."""
    if of is None or payload is None:
        return ()
    given = iter(payload.values)
    return tuple(next(given) if want else None for want in of.wants)

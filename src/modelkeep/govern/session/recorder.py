"""Recording what crosses: an honest but curious party writes down all that it sees of the piece it does not hold.

It needs nobody's consent for that, breaks no rule of the protocol and leaves no trace in any ledger: what crosses the
cuts is its own to keep. How much nearer it brings the party to the whole model is T6 of `modelkeep.completion`.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

import torch

from modelkeep.completion.recording import Passed, Recording, Tensors
from modelkeep.core.errors import GovernError, bad_parameter
from modelkeep.govern.ledger.writer import What
from modelkeep.govern.session.computation import Passage
from modelkeep.govern.session.party import Party
from modelkeep.govern.session.passes import Pass
from modelkeep.govern.session.payload import Load
from modelkeep.training.batches import parts_of


@dataclass
class _Seen:
    """What has crossed in one micro-batch so far."""

    of: Pass
    rows: torch.Tensor
    loads: dict[tuple[What, bool], Load] = field(default_factory=dict)


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
        expected = party.holding.expected[True]
        if any(not spec.kind.startswith("torch.") for i in (missing[0], missing[-1] + 1) for spec in expected[i]):
            raise GovernError("Sizes cross the cut, not only tensors: such a piece cannot be recorded.")
        self._party, self._passes, self._missing = party, passes, missing
        self._seen: dict[str, OrderedDict[tuple[int, int], _Seen]] = {}
        party.on_crossing = self._crossing

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
            passes=tuple(_passed(one) for one in seen),
        )

    def _crossing(self, passage: Passage, what: What, at: int, part: int, load: Load) -> None:
        """Called by the party for all that it sends and gets: `at` counts the gaps between legs."""
        way, own = passage.way, self._party.name
        others = [i for i, leg in enumerate(way) if leg.holder != own and leg.pieces]
        into, out = others[0] - 1, others[-1]
        if at not in (into, out):
            return
        kept = self._seen.setdefault(passage.of.purpose, OrderedDict())
        key = (passage.of.number, part)
        if key not in kept:
            kept[key] = _Seen(passage.of, self._rows(passage, part))
            while len(kept) > self._passes:
                kept.popitem(last=False)
        copied = tuple(value.detach().clone() if isinstance(value, torch.Tensor) else value for value in load.values)
        kept[key].loads[what, at == out] = Load(copied, load.wants)

    def _rows(self, passage: Passage, part: int) -> torch.Tensor:
        """Which examples of the data: the order of the batches is agreed on."""
        of = passage.of
        if passage.training:
            return parts_of(self._party.holding.batches.index(of.step), of.parts)[part]
        return parts_of(torch.arange(of.first, of.first + of.rows), of.parts)[part]


def _passed(seen: _Seen) -> Passed:
    inputs, outputs = (seen.loads.get(("activations", side)) for side in (False, True))
    return Passed(
        rows=seen.rows,
        inputs=() if inputs is None else inputs.tensors,
        outputs=() if outputs is None else outputs.tensors,
        output_gradients=_gradients(outputs, seen.loads.get(("gradients", True))),
        input_gradients=_gradients(inputs, seen.loads.get(("gradients", False))),
    )


def _gradients(of: Load | None, load: Load | None) -> Tensors:
    """The gradients beside the tensors that they are of: only those that want one get one."""
    if of is None or load is None:
        return ()
    given = iter(load.values)
    return tuple(next(given) if want else None for want in of.wants)

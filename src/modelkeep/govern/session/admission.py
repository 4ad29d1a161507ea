"""Admission: which tensors another party may send in the pass under way; asked before any memory is taken for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelkeep.govern.piece.computation import Computation
from modelkeep.govern.session.spot_check import SpotCheck


class Admission:
    """A pass that has not begun may hold nothing, and in one that has each message comes once, and is not too large."""

    def __init__(self) -> None:
        self._admitted: set[tuple[object, ...]] = set()

    def forget(self) -> None:
        """The pass is over."""
        self._admitted = set()

    def admit(
        self, computation: Computation | None, session: str, peer: str, kind: str, header: Mapping[str, Any], size: int
    ) -> str:
        """Let tensors of `size` bytes come: "", or a sentence that says why they may not.

        `computation` is the pass under way, if there is one, and `session` the one that the party is in.
        """
        if kind not in (("opening",) if isinstance(computation, SpotCheck) else ("activations", "gradients")):
            return f"'{peer}' sent tensors with a message that has none. They are ignored."
        number: Any = header.get("leg")
        part: Any = header.get("part")
        if not session or header.get("session") != session:
            why = "of a session that is over, or of none"
        elif computation is None or header.get("pass") != computation.of.digest:
            why = "of a pass that has not begun, or is over"
        elif not computation.due(peer, kind, number, part) or (kind, number, part) in self._admitted:
            why = (
                f"for micro-batch {part!r:.40} of stage {number!r:.40} in {computation.of}, and none are due from it: "
                "they came twice, too soon, or from the wrong party"
            )
        elif size > computation.largest(kind, number, part):
            why = f"of {size:,} bytes in {computation.of}, which are more than can be due"
        else:
            self._admitted.add((kind, number, part))
            return ""
        return f"'{peer}' sent {kind} {why}. They are ignored."

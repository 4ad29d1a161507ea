"""The curve of fidelity against queries: how good a copy a thief would have by now."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from modelkeep.core.results import Estimate, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, eq=False)
class FidelityCurve(Result, kind="fidelity-curve"):
    """The `fidelity` and the `accuracy` of copies that learnt from the first `queries` answers."""

    strategy: str
    attack: str
    defence: str
    queries: tuple[int, ...]
    fidelity: tuple[Estimate, ...]
    accuracy: tuple[Estimate, ...]

    def rows(self) -> list[tuple[str, str]]:
        at = zip(self.queries, self.fidelity, strict=True)
        return [
            ("attack", f"{self.strategy} + {self.attack}"),
            ("defence", self.defence),
            *((f"fidelity after {queries:,} queries", str(fidelity)) for queries, fidelity in at),
        ]

    def draw(self) -> Figure:
        """Fidelity and accuracy against queries, in the bands of their intervals."""
        from modelkeep.core import plots

        return plots.curve(
            self.queries,
            {"fidelity to the target": self.fidelity, "accuracy": self.accuracy},
            x_label="queries",
            y_label="share of the test data",
        )

    def for_dashboard(self) -> str:
        """The JSON that the gateway's dashboard reads."""
        return json.dumps({"queries": list(self.queries), "fidelity": [each.value for each in self.fidelity]})

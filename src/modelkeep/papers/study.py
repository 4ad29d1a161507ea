"""PaperStudy: a table or figure of a paper that can be made again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.core.registry import Declaration, find, require_extra
from modelkeep.papers.curves import PaperCurves
from modelkeep.papers.table import PaperTable
from modelkeep.study.study import Study, StudyResult
from modelkeep.study.trials import Trial

Size = Literal["small", "medium", "paper"]
"""`small` is a coffee break on two cores, `medium` a working day; `paper` has the paper's own settings."""


@dataclass(frozen=True)
class PaperStudy:
    """A table or figure of a paper: its trials, and the report on them.

    `declare("study", …)` gives it its name, its place in the paper and what it shows. `trials(size, seed)` and
    `make_report` are plain functions. The report is made of the trials that are done; what is missing it marks as
    missing.
    """

    trials: Callable[[Size, int], Sequence[Trial]]
    make_report: Callable[[StudyResult], PaperTable | PaperCurves]
    sizes: tuple[Size, ...] = ("small", "paper")
    declaration: Declaration | None = None

    @property
    def declared(self) -> Declaration:
        """Its name, its place in the paper, what it shows and which extra it needs."""
        if self.declaration is None:
            raise InputError('A PaperStudy needs a name: STUDY = declare("study", "name", paper="…")(PaperStudy(…)).')
        return self.declaration

    def study(self, size: Size, seed: int) -> Study:
        """Its trials under a name of their own, so that one ledger keeps all sizes and seeds."""
        name = self.declared.name
        if size not in self.sizes:
            raise bad_parameter(f"The study '{name}'", "size", " or ".join(map(repr, self.sizes)), size)
        return Study(f"{name}-{size}-seed-{seed}", self.trials(size, seed))

    def report(self, result: StudyResult) -> PaperTable | PaperCurves:
        """Ours beside the paper's."""
        return replace(self.make_report(result), where=self.declared.paper, other_code=result.other_code)


def load_study(name: str) -> PaperStudy:
    """The declared study of that name. Only its own module is imported; a missing extra is named."""
    declared = find("study", name)
    require_extra(declared)
    return cast(PaperStudy, declared.load())

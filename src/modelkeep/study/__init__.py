"""Studies of many trials: what to run, the engines that run it, and the ledger that keeps every result.

>>> from modelkeep.study import Study, grid
>>> Study("means", grid("statistics:fmean", {"data": [[1, 2], [3, 4], [5, 6]]}, seeds=[0, 1]))
Study('means', 6 trials)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelkeep.core.lazy import attach
from modelkeep.study.folder import workdir, working_in
from modelkeep.study.names import trial
from modelkeep.study.trials import Trial, grid

if TYPE_CHECKING:
    from modelkeep.study.ledger import Ledger
    from modelkeep.study.local import Limits, Local
    from modelkeep.study.ray import Ray
    from modelkeep.study.record import Record
    from modelkeep.study.study import Study, StudyResult, run

__all__ = [
    "Ledger",
    "Limits",
    "Local",
    "Ray",
    "Record",
    "Study",
    "StudyResult",
    "Trial",
    "grid",
    "run",
    "trial",
    "workdir",
    "working_in",
]

# Loaded on first use: `modelkeep study list` needs the ledger and no torch.
if not TYPE_CHECKING:  # a type checker shall know these names and no others
    __getattr__, __dir__ = attach(__name__)

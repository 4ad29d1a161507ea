"""Instruments: what the interactive views compute with, made once for each open model and kept while it is open."""

from __future__ import annotations

from functools import cached_property, lru_cache
from pathlib import Path
from weakref import WeakKeyDictionary

from modelkeep.core.errors import ResultError
from modelkeep.report import PrivacyReport
from modelkeep.web.explorer import Explorer
from modelkeep.web.membership_curve import Leak
from modelkeep.web.playground import Playground
from modelkeep.web.proofs import Proofs
from modelkeep.web.workspace import Opened, Workspace


class Instruments:
    """The instruments of one open model. Whoever uses them holds the lock of the model."""

    def __init__(self, workspace: Workspace, opened: Opened) -> None:
        self._workspace = workspace
        self._model, self._data, self._sources = opened.model, opened.data, opened.sources
        self._leaks: dict[int, Leak] = {}

    @cached_property
    def explorer(self) -> Explorer:
        """Explanations of single examples."""
        return Explorer(self._model, self._data)

    @cached_property
    def playground(self) -> Playground:
        """Attacks on single examples."""
        return Playground(self._model, self._data)

    @cached_property
    def proofs(self) -> Proofs:
        """Certificates."""
        return Proofs(self._model, self._data)

    def leak(self, seed: int) -> Leak:
        """Fast membership attacks, where the training data is known."""
        if seed not in self._leaks:
            train = self._workspace.read_training(self._sources, self._data)
            self._leaks[seed] = Leak(self._model, train, self._data, seed)
        return self._leaks[seed]

    @cached_property
    def fingerprint(self) -> str:
        """Of the model as it was opened."""
        return self._model.fingerprint()

    def stored(self) -> dict[str, PrivacyReport]:
        """What `modelkeep privacy` found about this very model, by the place of its file below the folder of runs."""
        folder = self._workspace.folder
        found = {}
        for path in sorted(folder.rglob("privacy.json")):
            report = _read_report(path, path.stat().st_mtime_ns)
            if report is not None and report.provenance.model == self.fingerprint:
                found[path.relative_to(folder).as_posix()] = report
        return found


_KEPT: WeakKeyDictionary[Opened, Instruments] = WeakKeyDictionary()


def instruments_of(workspace: Workspace, opened: Opened) -> Instruments:
    """The instruments of an open model, the same ones each time."""
    if opened not in _KEPT:
        _KEPT[opened] = Instruments(workspace, opened)
    return _KEPT[opened]


@lru_cache(maxsize=32)
def _read_report(path: Path, _changed: int) -> PrivacyReport | None:
    """A file as it was when it was last changed: who drags a slider asks for it again and again."""
    try:
        return PrivacyReport.from_json(path.read_text(encoding="utf-8"))
    except (ResultError, OSError):
        return None  # of another version, damaged or gone: there is nothing to show of it

"""Journal: each finished check of an audit on disk, so that a killed audit goes on where it was."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, is_dataclass
from hashlib import sha256
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from modelkeep.audit.findings import Section
from modelkeep.audit.plan import Step
from modelkeep.core.data import Data
from modelkeep.core.files import replace_file
from modelkeep.core.method import settings_of
from modelkeep.core.model import Model
from modelkeep.core.version import __version__
from modelkeep.study.trials import canonical

_SECTION = TypeAdapter(Section)


@dataclass
class Kept:
    """The section of one check, if the journal has it, and the place for it."""

    path: Path | None
    section: Section | None = None

    def keep(self, section: Section) -> Section:
        """Write the section down, unless it says that the check did not run."""
        if self.path is not None and not any(finding.skipped for finding in section.findings):
            with replace_file(self.path) as unfinished:
                unfinished.write_bytes(_SECTION.dump_json(section))
        return section


class Journal:
    """The folder of one audit's finished checks; None keeps nothing.

    A check is found again by its settings, the model, the data, the seed and the version of modelkeep.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def recall(self, step: Step, model: Model, data: Data, train: Data | None, seed: int) -> Kept:
        """What was kept of this step."""
        if self.folder is None:
            return Kept(None)
        self.folder.mkdir(parents=True, exist_ok=True)
        told = {
            "check": step.name,
            "settings": settings_of(step.check) if is_dataclass(step.check) else {},
            "model": model.fingerprint(),
            "data": data.fingerprint(),
            "train": None if train is None else train.fingerprint(),
            "seed": seed,
            "version": __version__,
        }
        path = self.folder / f"{step.name}-{sha256(canonical(told).encode()).hexdigest()[:16]}.json"
        return Kept(path, _read(path))

    def remove(self) -> None:
        """Forget it: the audit is finished and its report is written."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def _read(path: Path) -> Section | None:
    try:
        return _SECTION.validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):  # none yet, or not of this version: the check runs again
        return None

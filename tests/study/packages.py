"""A small package of trials in a temporary folder, which tests edit and import anew."""

from __future__ import annotations

import sys
from importlib import import_module, invalidate_caches
from pathlib import Path


class Package:
    """The package `pack`, with a helper and the trials that use it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "pack"
        self.folder.mkdir()
        (self.folder / "__init__.py").touch()

    def write(self, helper: str, trials: str | None = None) -> None:
        """Write the helper's text and, where given, that of the trials."""
        (self.folder / "helper.py").write_text(helper)
        if trials is not None:
            (self.folder / "trials.py").write_text(trials)

    def load(self) -> None:
        """Import it anew, as another process would."""
        self.unload()
        invalidate_caches()
        import_module("pack.trials")

    def unload(self) -> None:
        """Forget the modules."""
        for name in [name for name in sys.modules if name.split(".")[0] == "pack"]:
            del sys.modules[name]

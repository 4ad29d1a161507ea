"""Workspace: the folder of runs and the models that are open, shared by all requests."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from modelkeep.audit.sources import Sources
from modelkeep.core.data import Data
from modelkeep.core.errors import ModelKeepError
from modelkeep.core.model import Model
from modelkeep.study.ledger import DEFAULT_PATH
from modelkeep.web.forms import CommandLine
from modelkeep.web.gateway import Watched
from modelkeep.web.jobs.jobs import Jobs
from modelkeep.web.runs import Runs

TRY_DIGITS = Sources("digits-cnn", "digits", "digits")
_MOST_OPEN = 4  # models; a tab may have one that another tab does not
_COMPUTING = threading.RLock()
_asked: ContextVar[tuple[str, str]] = ContextVar("modelkeep_ui_asked", default=("", ""))


class NotOpen(ModelKeepError):
    """A view needs a model, and none is open."""


@dataclass(frozen=True)
class Opened:
    """A model with its data, and the names under which a command line finds them again.

    `lock` is held by whoever computes with a model, and there is one for all of them: a model has one set of hooks,
    torch.fx patches `nn.Module` itself while it traces a network, and the random state is that of the process.
    """

    model: Model
    data: Data
    sources: Sources
    lock: threading.RLock = field(default=_COMPUTING, repr=False, compare=False)

    @cached_property
    def fingerprints(self) -> tuple[str, str]:
        """Of the model and of the data."""
        with self.lock:
            return self.model.fingerprint(), self.data.fingerprint()

    @cached_property
    def slices(self) -> tuple[str, ...]:
        """The places where the network can be cut; none of a model that only answers."""
        with self.lock:
            try:
                return self.model.slices()
            except ModelKeepError:
                return ()

    @property
    def name(self) -> str:
        """Such as "digits-cnn on digits"."""
        return f"{Path(self.sources.model).name} on {Path(self.sources.data).name}"


@dataclass
class Workspace:
    """What the application works on. `folder` holds runs, studies and the list of jobs."""

    folder: Path
    command_line: CommandLine
    _opened: dict[tuple[str, str], Opened] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.jobs = Jobs(self.folder)
        self.runs = Runs(self.folder)
        self.gateway: Watched | None = None

    @property
    def ledger(self) -> Path:
        """The file with the studies, as the command line names it by default."""
        return self.folder / DEFAULT_PATH.name

    @property
    def opened(self) -> Opened | None:
        """The model that the request asks for by `?model=…&data=…`; without them the one that was opened last."""
        with self._lock:
            asked = _asked.get()
            if any(asked):
                return self._opened.get(asked)
            return next(reversed(self._opened.values()), None)

    def require_opened(self) -> Opened:
        """The same, or an error that says what to do."""
        found = self.opened
        if found is not None:
            return found
        model, data = _asked.get()
        told = f"'{model}' with the data '{data}' is not open" if model or data else "No model is open"
        raise NotOpen(f"{told}. Open it at the top of the page.")

    def open(self, sources: Sources) -> Opened:
        """Read a model and its data, unless they are open already."""
        key = (sources.model, sources.data)
        with self._lock:
            there = self._opened.get(key)
        if there is None or there.sources != sources:
            with _COMPUTING:  # what is read is tried at once; other pages need not wait for that
                there = Opened(*self.command_line.open(sources), sources)
        with self._lock:
            self._opened.pop(key, None)
            self._opened[key] = there  # the last
            while len(self._opened) > _MOST_OPEN:
                del self._opened[next(iter(self._opened))]
            return there

    def find(self, model: str, data: str) -> Opened | None:
        """The model of that name with these data, where it is open."""
        with self._lock:
            return self._opened.get((model, data))

    def free_folder(self, verb: str) -> Path:
        """A folder for the next run of a command, in which nothing is yet."""
        name = verb.replace(" ", "-")
        taken = {each.name for each in self.folder.glob(f"{name}-*")} | {Path(job.out).name for job in self.jobs.all()}
        number = 1
        while f"{name}-{number}" in taken:
            number += 1
        return self.folder / f"{name}-{number}"

    def read_training(self, sources: Sources, like: Data) -> Data:
        """What a model was trained on, as far as it was said or is known."""
        return self.command_line.read_training(sources, like)

    @staticmethod
    def ask(model: str, data: str) -> None:
        """Say which model the request at hand is about."""
        _asked.set((model, data))

"""Parties for tests: folders with identities, a signed agreement and pieces, and processes that serve."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from time import time
from typing import Any

import torch

from modelkeep import Data, Model
from modelkeep.govern.agreement.agreement import Agreement
from modelkeep.govern.agreement.draft import draft
from modelkeep.govern.agreement.terms import Material
from modelkeep.govern.consent import ConsentState
from modelkeep.govern.folder import Folder
from modelkeep.govern.identity import Identity
from modelkeep.govern.passes import Purpose
from modelkeep.govern.piece.files import split
from modelkeep.govern.session.party import Party
from modelkeep.govern.session.service import serve
from modelkeep.govern.wire.settings import Wire
from modelkeep.training import SGD, Recipe
from modelkeep.zoo import datasets
from ports import free_port
from processes import PATIENCE


def digits(n: int = 256) -> Data:
    """Some of the embedded digits."""
    return datasets.load("digits", "train").first(n)


def found(
    root: Path,
    model: Model,
    data: Data,
    *,
    cuts: Sequence[str],
    holders: Sequence[str],
    labels: str,
    source: str = "alice",
    recipe: Recipe | None = None,
    names: Sequence[str] | None = None,
    **more: Any,
) -> tuple[Agreement, dict[str, Folder]]:
    """Folders of parties that have signed an agreement and hold their pieces; each listens on loopback."""
    names = names or sorted({*holders, labels, source})
    identities = {name: Identity.at(root / name, name) for name in names}
    agreement = draft(
        "test",
        model,
        parties=[identity.public for identity in identities.values()],
        addresses={name: f"127.0.0.1:{free_port()}" for name in names},
        cuts=cuts,
        holders=holders,
        data=Material.inputs(source, data),
        labels=Material.labels(labels, data),
        recipe=recipe or Recipe(steps=8, batch_size=32, optimizer=SGD(momentum=0.9), learning_rate=0.1),
        **{"wire": Wire(deadline=20.0), "checkpoint_every": 4, **more},
    )
    for identity in identities.values():
        agreement = agreement.sign(identity)
    folders = {name: Folder(root / name) for name in names}
    for folder in folders.values():
        agreement.write(folder.agreement)
    split(model, agreement, folders)
    return agreement, folders


def approve(folder: Folder, purpose: Purpose, passes: int = 1) -> None:
    """A person approves passes at the party of this folder."""
    state = ConsentState(folder.consent)
    state.approve(passes, purpose, time() + 3600)
    state.close()


class Host:
    """A process in which one party after another serves, because to start a process takes seconds."""

    def __init__(self) -> None:
        tests = str(Path(__file__).parents[1])
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "OMP_NUM_THREADS": "1",
                "PYTHONPATH": os.pathsep.join([tests, *sys.path]),
            },
        )

    def serve(self, folder: Folder, data: str) -> None:
        """Begin to serve, with the data that a function of `networks.py` makes."""
        self._say(f"{folder.path}\t{data}")

    def stop(self) -> None:
        """Serve no more."""
        self._say("")

    def heard(self) -> str:
        """Wait for the answer to what was said: "ready" or "stopped"."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def resident(self) -> int:
        """The bytes of memory that the process has."""
        pages = Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _say(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{text}\n")
        self._process.stdin.flush()


def main() -> None:
    """Serve for one folder after another, as lines on stdin say; an empty line ends one."""
    torch.set_num_threads(1)
    for line in sys.stdin:
        path, data = line.strip().split("\t")
        end = threading.Event()
        made: Data = getattr(importlib.import_module("govern.networks"), data)()
        with Party(Folder(Path(path)), data=[made]) as party:
            thread = threading.Thread(target=serve, args=(party, end))
            thread.start()
            os.write(1, b"ready\n")
            sys.stdin.readline()
            end.set()
            thread.join()
        os.write(1, b"stopped\n")


if __name__ == "__main__":
    main()

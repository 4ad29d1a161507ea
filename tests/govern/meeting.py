"""Meetings: Alice leads a run with Bob and Carol, who serve in other processes; and the run that it must equal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from govern.parties import Host, found
from modelkeep import Data, Model
from modelkeep.govern.agreement.agreement import Agreement
from modelkeep.govern.folder import Folder
from modelkeep.govern.piece.checkpoints import Checkpoints
from modelkeep.govern.session.leader import Leader
from modelkeep.govern.session.party import Party
from modelkeep.training import SGD, Recipe, cross_entropy, fit
from modelkeep.training.objectives import Objective

MOMENTUM = Recipe(steps=6, batch_size=32, optimizer=SGD(momentum=0.9), learning_rate=0.1)


@dataclass
class Meeting:
    """The parties of one agreement, all of which are up."""

    agreement: Agreement
    folders: dict[str, Folder]
    hosts: Mapping[str, Host]
    made: str
    data: Data

    @contextmanager
    def up(self, *names: str) -> Iterator[None]:
        """Let the named parties serve, all of the others than Alice if none are named."""
        serving = names or [name for name in self.folders if name != "alice"]
        for name in serving:
            self.hosts[name].serve(self.folders[name], self.made)
        assert [self.hosts[name].heard() for name in serving] == ["ready"] * len(serving)
        try:
            yield
        finally:
            for name in serving:
                self.hosts[name].stop()
            assert [self.hosts[name].heard() for name in serving] == ["stopped"] * len(serving)

    @contextmanager
    def alice(self, patience: float = 20.0) -> Iterator[Leader]:
        """Alice, who leads."""
        with Party(self.folders["alice"], data=[self.data]) as party:
            yield Leader(party, patience=patience)

    def weights(self) -> dict[str, Tensor]:
        """All parties' parts, as they lie on their disks."""
        found: dict[str, Tensor] = {}
        for folder in self.folders.values():
            kept = Checkpoints(folder.checkpoints)
            found |= kept.read(kept.steps()[-1]).part("piece/")
        return found

    def alone(self, objective: Objective = cross_entropy, *, updates: int | None = None) -> Model:
        """The same run in one process, of so many updates."""
        torch.manual_seed(0)
        model = self.agreement.build()
        recipe = self.agreement.recipe if updates is None else replace(self.agreement.recipe, steps=updates)
        fit(model, self.data, objective, recipe, seed=self.agreement.seed)
        return model


def meeting(
    root: Path,
    hosts: Mapping[str, Host],
    architecture: str,
    made: str,
    cuts: Sequence[str],
    holders: Sequence[str],
    labels: str,
    *,
    arguments: Mapping[str, Any] | None = None,
    recipe: Recipe = MOMENTUM,
    **more: Any,
) -> Meeting:
    """Parties that have signed and hold their pieces; nobody is up yet."""
    from govern import networks

    data: Data = getattr(networks, made)()
    torch.manual_seed(0)
    model = Model.load(architecture, like=data, arguments=dict(arguments or {}))
    agreement, folders = found(root, model, data, cuts=cuts, holders=holders, labels=labels, recipe=recipe, **more)
    return Meeting(agreement, folders, hosts, made, data)


def same_bits(found: Mapping[str, Tensor], model: Model) -> bool:
    """Whether these are exactly the weights and statistics of the model."""
    wanted = {**dict(model.module.named_parameters()), **dict(model.module.named_buffers())}
    assert found.keys() == wanted.keys()
    return all(torch.equal(found[name], tensor.detach()) for name, tensor in wanted.items())

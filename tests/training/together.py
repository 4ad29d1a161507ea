"""One of two processes that train one model: `python together.py RANK FOLDER`. Leaves what it found in FOLDER."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import distributed, nn

from modelkeep import Data, Model
from modelkeep.core.errors import CheckpointError, InputError
from modelkeep.training import SGD, Augmentation, Recipe, Step, cross_entropy, fit

RECIPE = Recipe(
    epochs=3,
    batch_size=8,
    optimizer=SGD(momentum=0.9, weight_decay=1e-3),
    learning_rate=0.05,
    augmentation=Augmentation(flip=True),
    evaluate_every=2,
)


def data() -> Data:
    """33 examples: batches of 8, and at the end of an epoch one of a single example, too small for two processes."""
    generator = torch.Generator().manual_seed(1)
    return Data(torch.rand(33, 1, 8, 8, generator=generator), torch.arange(33) % 4, tuple("abcd"))


def network(seed: int, normalised: bool = False) -> Model:
    torch.manual_seed(seed)
    norm = nn.BatchNorm2d(4) if normalised else nn.Identity()
    module = nn.Sequential(nn.Conv2d(1, 4, 3), norm, nn.Tanh(), nn.Flatten(), nn.Linear(144, 4))
    return Model(module, input_shape=(1, 8, 8), classes=tuple("abcd"))


@dataclass(frozen=True)
class Stopping:
    """Cross-entropy until step `at`. Where it stops is not in its name, so that checkpoints take it for the same."""

    at: int = field(default=-1, repr=False)

    def __call__(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        if step.number == self.at:
            raise InterruptedError
        return cross_entropy(model, x, y, step)


class OwnGradients:
    def gradients(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        raise NotImplementedError


def main() -> None:
    rank, folder = int(sys.argv[1]), Path(sys.argv[2])
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)

    # The other process starts from other weights: the first one's count.
    model = network(seed=rank)
    fitted = fit(model, data(), cross_entropy, RECIPE, seed=0, held_out=data())
    rows = [{k: v for k, v in asdict(row).items() if k != "seconds"} for row in fitted.history]
    save_file(model.module.state_dict(), folder / f"weights{rank}", metadata={"history": json.dumps(rows)})

    # Stopped after 7 steps and resumed: only the first process writes, all go on from what it wrote.
    path = folder / "checkpoint" if rank == 0 else folder / "nowhere" / "checkpoint"
    straight, resumed = network(0, normalised=True), network(0, normalised=True)
    fit(straight, data(), Stopping(), RECIPE, seed=0)
    with pytest.raises(InterruptedError):
        fit(network(0, True), data(), Stopping(7), RECIPE, seed=0, checkpoint=path, checkpoint_seconds=0)
    fit(resumed, data(), Stopping(), RECIPE, seed=0, checkpoint=path, checkpoint_seconds=0)
    assert straight.fingerprint() == resumed.fingerprint()
    assert path.exists() == (rank == 0)
    save_file(resumed.module.state_dict(), folder / f"normalised{rank}")

    with pytest.raises(InputError, match="one process only"):
        fit(network(0), data(), OwnGradients(), RECIPE, seed=0)

    # Processes that do not agree on what they train notice it before they train; the first sees the other leave.
    disagreement = RuntimeError if rank == 0 else CheckpointError
    with pytest.raises(disagreement, match=None if rank == 0 else "data was .* same arguments to all processes"):
        fit(network(0), data().first(33 - rank), cross_entropy, RECIPE, seed=0)
    # A group that lost a member leaves threads of gloo behind, on which an ordinary exit now and then aborts.
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()

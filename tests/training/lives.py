"""A training that is killed again and again: `python lives.py CHECKPOINT OUT SEED` (SEED -1: never killed).

Forks a child that trains; kills it with SIGKILL at a random moment, or lets it kill itself inside the writing of a
checkpoint; and starts another, until one comes to the end. Writes the weights and the history to OUT.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

from modelkeep import Data, Model
from modelkeep.training import Adam, Augmentation, EarlyStop, Linear, Recipe, cross_entropy, fit


def train(checkpoint: Path | None, out: Path | None, epochs: int = 15) -> None:
    generator = torch.Generator().manual_seed(1)
    data = Data(torch.rand(64, 1, 8, 8, generator=generator), torch.arange(64) % 4, tuple("abcd"), bounds=(0.0, 1.0))
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Dropout(0.4), nn.Linear(288, 4)
    )
    model = Model(module, input_shape=(1, 8, 8), classes=data.classes)
    recipe = Recipe(
        epochs=epochs,
        batch_size=12,
        optimizer=Adam(),
        learning_rate=Linear(1e-2, 0.0),
        augmentation=Augmentation(flip=True, shift=0.1),
        evaluate_every=4,
        early_stop=EarlyStop(100),
    )
    fitted = fit(model, data, cross_entropy, recipe, seed=0, held_out=data, checkpoint=checkpoint, checkpoint_seconds=0)
    rows = [{k: v for k, v in asdict(row).items() if k != "seconds"} for row in fitted.history]
    if out is not None:
        save_file(model.module.state_dict(), out, metadata={"history": json.dumps(rows)})


def kill_self_at_fsync(number: int) -> None:
    """Every write of a checkpoint syncs twice: the new file before it gets its name, and its folder after."""
    real, calls = os.fsync, 0

    def deadly(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls == number:
            os.kill(os.getpid(), signal.SIGKILL)
        real(descriptor)

    os.fsync = deadly  # type: ignore[assignment]


def main() -> None:
    checkpoint, out, seed = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    if seed < 0:
        train(checkpoint, out)
        return
    train(None, None, epochs=1)  # what is imported on first use is imported once, before the forks
    chance = random.Random(seed)
    killed = 0
    while True:
        child = os.fork()
        if child == 0:
            if killed % 2:
                kill_self_at_fsync(chance.randint(3, 30))
            train(checkpoint, out)
            os._exit(0)
        chance.random()  # the parent's draws and the child's go on from different places
        if killed % 2 == 0:
            time.sleep(chance.uniform(0.0, 0.04))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0, "the training failed"
            break
        killed += 1
    sys.stdout.write(f"{killed}\n")


if __name__ == "__main__":
    main()

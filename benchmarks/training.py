"""What the training loop costs per step, against the same loop by hand in bare torch and against pytorch-ignite.

A step takes milliseconds and the loop adds microseconds, less than the noise of a machine that does other things.
So the rivals take turns at every step: inside each of its steps the rival lets bare torch take one of its own, and
the two are compared epoch by epoch. What `fit` costs once, before and after all steps, is a figure of its own.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter

import torch
from torch import nn
from torch.nn.functional import cross_entropy as torch_cross_entropy

from _measure import arguments, interleaved, report
from modelkeep import Data, Model
from modelkeep.training import SGD, Recipe, Step, cross_entropy, fit

BATCH, RATE, MOMENTUM = 64, 0.05, 0.9
Turn = Callable[[], None]
Rival = Callable[[nn.Module, Data, int, int, Turn], None]


def network(side: int) -> nn.Module:
    """Two convolutions and one dense layer, for grey images of `side` × `side`."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * (side // 4) ** 2, 10),
    )


def bare(module: nn.Module, data: Data, seed: int) -> Iterator[None]:
    """The loop as one writes it by hand, a step at a time: shuffled batches by index, nothing else."""
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE, momentum=MOMENTUM)
    generator = torch.Generator().manual_seed(seed)
    module.train()
    while True:
        for index in torch.split(torch.randperm(len(data), generator=generator), BATCH):
            optimizer.zero_grad()
            loss = torch_cross_entropy(module(data.x.index_select(0, index)), data.y.index_select(0, index))
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            yield


def ours(module: nn.Module, data: Data, seed: int, epochs: int, turn: Turn) -> None:
    """The same with `fit`."""

    def objective(model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        turn()
        return cross_entropy(model, x, y, step)

    model = Model(module, input_shape=data.input_shape, classes=data.classes)
    recipe = Recipe(epochs=epochs, batch_size=BATCH, optimizer=SGD(momentum=MOMENTUM), learning_rate=RATE)
    fit(model, data, objective, recipe, seed=seed)


def peer(module: nn.Module, data: Data, seed: int, epochs: int, turn: Turn) -> None:
    """The same with pytorch-ignite's trainer, on a torch DataLoader as its users write it."""
    from ignite.engine import create_supervised_trainer
    from torch.utils.data import DataLoader, TensorDataset

    def prepare(batch: list[torch.Tensor], device: object, non_blocking: bool) -> tuple[torch.Tensor, torch.Tensor]:
        turn()
        return batch[0], batch[1]

    optimizer = torch.optim.SGD(module.parameters(), lr=RATE, momentum=MOMENTUM)
    generator = torch.Generator().manual_seed(seed)
    loader = DataLoader(TensorDataset(data.x, data.y), batch_size=BATCH, shuffle=True, generator=generator)
    trainer = create_supervised_trainer(module, optimizer, torch_cross_entropy, prepare_batch=prepare)
    trainer.run(loader, max_epochs=epochs)


def in_turns(rival: Rival, data: Data, seed: int, steps: int) -> tuple[float, float, float]:
    """Median seconds per step of the rival and of bare torch, and the median ratio, over whole epochs."""
    start, per_epoch = network(data.input_shape[-1]), len(data) // BATCH
    floor = bare(copy.deepcopy(start), data, seed)
    rivals: list[float] = []
    floors: list[float] = []
    ended = perf_counter()

    def turn() -> None:
        nonlocal ended
        started = perf_counter()
        rivals.append(started - ended)
        next(floor)
        ended = perf_counter()
        floors.append(ended - started)

    rival(start, data, seed, 1 + steps // per_epoch, turn)
    # The first epoch warms up, and what came before its first step is not a step; an epoch's end is a part of it.
    starts = range(per_epoch + 1, len(rivals) - per_epoch + 1, per_epoch)
    pairs = [(sum(rivals[i : i + per_epoch]), sum(floors[i : i + per_epoch])) for i in starts]
    ratio = median(own / bare_ for own, bare_ in pairs)
    return median(own for own, _ in pairs) / per_epoch, median(bare_ for _, bare_ in pairs) / per_epoch, ratio


def digits() -> Data:
    """The 8×8 digits that scikit-learn carries, in whole batches."""
    from sklearn.datasets import load_digits

    found = load_digits()
    x, y = torch.tensor(found.images / 16, dtype=torch.float32).unsqueeze(1), torch.tensor(found.target)
    return Data(x, y, tuple("0123456789"), "digits").first(28 * BATCH)


def fashion_like(seed: int) -> Data:
    """Noise in the shape of Fashion-MNIST: the time of a step does not depend on what the images show."""
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.rand(4 * BATCH, 1, 28, 28, generator=generator), torch.arange(4 * BATCH) % 10
    return Data(x, y, tuple("0123456789"), "fashion_like")


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--steps", type=int, default=1200, help="steps of each rival on digits; a quarter on the other")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(chosen.seed)
    contenders: dict[str, Rival] = {"loop": ours, "peer": peer}
    try:
        import ignite  # noqa: F401
    except ImportError:
        print("pytorch-ignite is not installed (pip install 'modelkeep[bench]'): measured without a peer")
        del contenders["peer"]
    figures: dict[str, float | int | str] = {}
    ratios: dict[str, float] = {}
    for data, steps in ((digits(), chosen.steps), (fashion_like(chosen.seed), chosen.steps // 4)):
        for name, rival in contenders.items():
            seconds, bare_seconds, ratio = in_turns(rival, data, chosen.seed, steps)
            figures[f"{name}_seconds_per_step_{data.name}"] = seconds
            figures.setdefault(f"bare_seconds_per_step_{data.name}", bare_seconds)
            figures[f"{name}_over_bare_{data.name}"] = ratio
            ratios.setdefault(name, ratio)
    batch = digits().first(BATCH)
    once = interleaved(
        {
            "loop": lambda: ours(network(8), batch, 0, 1, lambda: None),
            "bare": lambda: next(bare(network(8), batch, 0)),
        },
        repeats=20,
    )
    figures["loop_seconds_once"] = once["loop"] - once["bare"]
    # The headline is the one on digits: the shorter the step, the more of it is the loop.
    figures |= {f"{name}_over_bare": ratio for name, ratio in ratios.items()}
    report(figures, chosen.json)


if __name__ == "__main__":
    main()

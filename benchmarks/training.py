"""What the training loop costs per step, against the same loop by hand in bare torch and against pytorch-ignite."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import nn
from torch.nn.functional import cross_entropy as torch_cross_entropy

from _measure import arguments, interleaved, report
from modelkeep import Data, Model
from modelkeep.training import SGD, Recipe, cross_entropy, fit

BATCH, EPOCHS, RATE, MOMENTUM = 64, 12, 0.05, 0.9


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


def bare(module: nn.Module, x: torch.Tensor, y: torch.Tensor, seed: int) -> None:
    """The loop as one writes it by hand: shuffled batches by index, nothing else."""
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE, momentum=MOMENTUM)
    generator = torch.Generator().manual_seed(seed)
    module.train()
    for _ in range(EPOCHS):
        for index in torch.split(torch.randperm(len(x), generator=generator), BATCH):
            optimizer.zero_grad()
            loss = torch_cross_entropy(module(x.index_select(0, index)), y.index_select(0, index))
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    module.eval()


def ours(module: nn.Module, data: Data, seed: int) -> None:
    """The same with `fit`."""
    model = Model(module, input_shape=data.input_shape, classes=data.classes)
    recipe = Recipe(epochs=EPOCHS, batch_size=BATCH, optimizer=SGD(momentum=MOMENTUM), learning_rate=RATE)
    fit(model, data, cross_entropy, recipe, seed=seed)


def peer(module: nn.Module, x: torch.Tensor, y: torch.Tensor, seed: int) -> None:
    """The same with pytorch-ignite's trainer, on a torch DataLoader as its users write it."""
    from ignite.engine import create_supervised_trainer
    from torch.utils.data import DataLoader, TensorDataset

    optimizer = torch.optim.SGD(module.parameters(), lr=RATE, momentum=MOMENTUM)
    generator = torch.Generator().manual_seed(seed)
    loader = DataLoader(TensorDataset(x, y), batch_size=BATCH, shuffle=True, generator=generator)
    create_supervised_trainer(module, optimizer, nn.CrossEntropyLoss()).run(loader, max_epochs=EPOCHS)


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """The 8×8 digits that scikit-learn carries."""
    from sklearn.datasets import load_digits

    found = load_digits()
    return torch.tensor(found.images / 16, dtype=torch.float32).unsqueeze(1), torch.tensor(found.target)


def fashion_like(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Noise in the shape of Fashion-MNIST: the time of a step does not depend on what the images show."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(256, 1, 28, 28, generator=generator), torch.randint(10, (256,), generator=generator)


def measure(name: str, x: torch.Tensor, y: torch.Tensor, seed: int, repeats: int) -> dict[str, float]:
    """Seconds per step of every rival on one data set."""
    data = Data(x, y, tuple(map(str, range(10))), name)
    start = network(x.shape[-1])

    def fresh(run: Callable[[nn.Module], None]) -> Callable[[], None]:
        return lambda: run(copy.deepcopy(start))

    rivals = {
        "bare": fresh(lambda module: bare(module, x, y, seed)),
        "loop": fresh(lambda module: ours(module, data, seed)),
    }
    try:
        import ignite  # noqa: F401

        rivals["peer"] = fresh(lambda module: peer(module, x, y, seed))
    except ImportError:
        print("pytorch-ignite is not installed (pip install 'modelkeep[bench]'): measured without a peer")
    steps = EPOCHS * -(-len(x) // BATCH)
    return {rival: seconds / steps for rival, seconds in interleaved(rivals, repeats=repeats).items()}


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--repeats", type=int, default=15)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(chosen.seed)
    figures: dict[str, float | int | str] = {}
    ratios: dict[str, list[float]] = {}
    for name, (x, y) in {"digits": digits(), "fashion_like": fashion_like(chosen.seed)}.items():
        seconds = measure(name, x, y, chosen.seed, chosen.repeats)
        figures |= {f"{rival}_seconds_per_step_{name}": value for rival, value in seconds.items()}
        for rival in seconds.keys() - {"bare"}:
            ratio = seconds[rival] / seconds["bare"]
            figures[f"{rival}_over_bare_{name}"] = ratio
            ratios.setdefault(rival, []).append(ratio)
    # The headline is the worse of the two data sets.
    figures |= {f"{rival}_over_bare": max(values) for rival, values in sorted(ratios.items())}
    report(figures, chosen.json)


if __name__ == "__main__":
    main()

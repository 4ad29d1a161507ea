"""Public pre-training before a private training of MNIST, which appendix C.1 recommends (after Abadi2016).

The public data are 20,000 pictures of Fashion-MNIST. "start" trains all layers privately from weights that learned
them. "last layer" keeps the convolutions, three times as wide because they cost no ε, and trains only a linear layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import nn

from modelkeep.core.data import Data
from modelkeep.core.method import declare
from modelkeep.core.model import Model
from modelkeep.papers.leino2022.defended import make_network, pooled, private_training, split_data
from modelkeep.papers.leino2022.table_c_2 import PAPER
from modelkeep.papers.result import Claim, values
from modelkeep.papers.study import PaperStudy, Size
from modelkeep.papers.table import Cell, PaperTable
from modelkeep.privacy.membership import Knowledge, Loss
from modelkeep.privacy.private_training import DPSGD
from modelkeep.study.names import trial
from modelkeep.study.study import StudyResult
from modelkeep.study.trials import Trial
from modelkeep.training import Adam, Recipe, cross_entropy, evaluate, fit
from modelkeep.zoo import datasets

WAYS = ("start", "last layer")
EPSILONS = {1.0: 0.132, 4.0: 0.251}
"""With the thesis' accuracies, which are from fresh weights."""
_PICTURES = 20_000
_WIDTH = 48
_LAST_LAYER = {1.0: 2.5, 4.0: 10.0}
"""The learning rates of the last layer, chosen as those in `defended` are, of 2.5 and 10."""


@trial("leino2022/public-layers", version=1)
def train_on_top(*, seed: int, split: int, way: str, epsilon: float, images: int, pictures: int) -> dict[str, Any]:
    """The test accuracy of a network with public first layers, and the advantage of the loss attack."""
    private, unseen, public = split_data("mnist", images, split)
    training = private_training("mnist", epsilon, len(private))
    if way == "start":
        model = make_network(private, seed)
        learned = _learn_fashion(16, pictures).state_dict()
        own = model.module.state_dict()
        first = {name: learned.get(name, own[name]) for name in own if int(name.split(".")[0]) < 6}
        model.module.load_state_dict({**own, **first})
    else:
        # What `DPSGD(trainable=…)` does with the whole network, without making the same features in every step.
        convolutions = _learn_fashion(_WIDTH, pictures)
        private, unseen, public = (_features(convolutions, part) for part in (private, unseen, public))
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            layer = nn.Linear(private.input_shape[0], len(private.classes))
        model = Model(layer, input_shape=private.input_shape, classes=private.classes, bounds=None)
        training = DPSGD(
            epsilon=epsilon,
            clip=training.clip,
            learning_rate=_LAST_LAYER[epsilon],
            epochs=15,
            batch_size=min(2048, len(private)),
        )
    training(model, private, seed=seed)
    found = Loss()(model, private, unseen, Knowledge(public), seed=seed)
    _, accuracy = evaluate(model, unseen)
    right = round(accuracy.value * accuracy.n)
    return {"test": [right, accuracy.n], "advantage": found.advantage.value}


@cache
def _learn_fashion(width: int, pictures: int) -> nn.Sequential:
    """The convolutions of the network for MNIST after learning other pictures; their names are the same."""
    other = datasets.load("fashion-mnist", "train").sample(pictures, 0)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        convolutions = nn.Sequential(
            nn.Conv2d(1, width, 8, stride=2, padding=3),
            nn.Tanh(),
            nn.MaxPool2d(2, 1),
            nn.Conv2d(width, 2 * width, 4, stride=2),
            nn.Tanh(),
            nn.MaxPool2d(2, 1),
            nn.Flatten(),
        )
        whole = nn.Sequential(convolutions, nn.Linear(32 * width, len(other.classes)))
    model = Model(whole, input_shape=other.input_shape, classes=other.classes, bounds=other.bounds)
    recipe = Recipe(epochs=3, batch_size=128, optimizer=Adam(), learning_rate=2e-3)
    fit(model, other, cross_entropy, recipe, seed=0)
    return convolutions


def _features(convolutions: nn.Module, data: Data) -> Data:
    with torch.no_grad():
        x = torch.cat([convolutions(some) for some, _ in data.batches(1000)])
    return Data(x, data.y, data.classes, bounds=None, name=f"features of {data.name}")


def trials(size: Size, seed: int) -> Sequence[Trial]:
    """Each way at each ε, on the split of table C.2."""
    return [
        Trial.of(
            train_on_top,
            {"split": seed, "way": way, "epsilon": epsilon, "images": 10**6, "pictures": _PICTURES},
            seed + repeat,
        )
        for repeat in range({"small": 2, "paper": 10}[size])
        for way in reversed(WAYS)
        for epsilon in EPSILONS
    ]


def report(result: StudyResult) -> PaperTable:
    """Accuracies and advantages, beside the thesis' accuracies without public data."""
    assert PAPER["mnist"][3:5] == tuple(EPSILONS.values())
    cells, seed, best = [], result.provenance.seed, None
    for way in WAYS:
        for epsilon, printed in EPSILONS.items():
            found = values(result.records, way=way, epsilon=epsilon)
            ours = pooled([value["test"] for value in found], seed)
            reached = max((value["advantage"] for value in found), default=None)
            note = "" if reached is None else f"advantage of loss at most {reached:+.3f}"
            cells.append(Cell(f"MNIST, public {way}", f"ε = {epsilon:g}", ours, printed, note))
            best = ours if way == "start" and epsilon == 1.0 else best
    says = "After public pre-training the resulting model's performance is far less poor."
    claim = Claim(says, "a trial is missing.", None)
    if best is not None:
        claim = Claim(says, f"{best.value:.3f} at ε = 1; table C.2 has ours from fresh weights.", best.low > 0.132)
    return PaperTable(study=result.study, cells=tuple(cells), claims=(claim,), provenance=result.provenance)


_PUBLIC_LAYERS = declare(
    "study",
    "public-layers",
    paper="Leino2022, appendix C.1; Abadi2016",
    extra="private",
    does="private training of MNIST after learning Fashion-MNIST: all layers, or the last one alone",
)(PaperStudy(trials, report))

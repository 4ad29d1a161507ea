"""Extraction against the bare floor and against ART's KnockoffNets, with one budget of queries in one run.

Digits, a small CNN as victim and as copy, the same questions, epochs, batches and learning rate for all. Floor: one
pass of the victim over the questions, and a training loop by hand on its answers. ART gets a victim that gives
probabilities; `fidelity_art_of_logits` is what it makes, without a word, of one that gives logits, as most torch
networks do. `pbayes_lookup_us` is the time to recover one of 10,000 answers of ten classes from a table of 20 entries
for each, as equation 21 has it.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from time import perf_counter

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from _measure import arguments, interleaved, report
from modelkeep import Data, Model
from modelkeep.core.access import Scores
from modelkeep.extract.extraction import Extract
from modelkeep.extract.lookup import Lookup
from modelkeep.extract.strategies import Knockoff
from modelkeep.guard.defences.reverse_sigmoid import ReverseSigmoid
from modelkeep.guard.grid import confidences, snap
from modelkeep.training import Recipe, fit
from modelkeep.training import cross_entropy as plain
from modelkeep.zoo import datasets
from modelkeep.zoo.architectures import small_cnn

SHAPE, CLASSES, QUERIES, EPOCHS, BATCH, RATE = (1, 8, 8), 10, 600, 20, 64, 2e-3
RECIPE = Recipe(epochs=EPOCHS, batch_size=BATCH, learning_rate=RATE)


def fidelity(copied: nn.Module, victim: Model, test: Data) -> float:
    """The share of test examples that both answer alike."""
    with torch.no_grad():
        return float((copied.eval()(test.x).argmax(dim=1) == victim.predict(test.x)).double().mean())


def floor(victim: Model, x: torch.Tensor, seed: int) -> nn.Module:
    """Ask once and train by hand, with nothing else."""
    torch.manual_seed(seed)
    answers = victim.probs(x)
    copied = small_cnn(SHAPE, CLASSES)
    mean, std = x.mean(), x.std()
    optimizer = torch.optim.Adam(copied.parameters(), lr=RATE)
    for _ in range(EPOCHS):
        for index in torch.split(torch.randperm(len(x)), BATCH):
            optimizer.zero_grad()
            cross_entropy(copied((x[index] - mean) / std), answers[index]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return nn.Sequential(Normalised(float(mean), float(std)), copied)


class Normalised(nn.Module):
    """(x − mean) / std."""

    def __init__(self, mean: float, std: float) -> None:
        super().__init__()
        self.mean, self.std = mean, std

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - self.mean) / self.std


def art(module: nn.Module, x: torch.Tensor, seed: int) -> Callable[[], nn.Module]:
    """ART's attack on a victim that gives what `module` gives."""
    classifier = importlib.import_module("art.estimators.classification").PyTorchClassifier
    knockoff = importlib.import_module("art.attacks.extraction").KnockoffNets

    def run() -> nn.Module:
        torch.manual_seed(seed)
        np.random.seed(seed)
        mean, std = float(x.mean()), float(x.std())
        copied = nn.Sequential(Normalised(mean, std), small_cnn(SHAPE, CLASSES))
        loss = nn.CrossEntropyLoss()
        optimizer = torch.optim.Adam(copied.parameters(), lr=RATE)
        victim = classifier(module, loss, SHAPE, CLASSES, clip_values=(0.0, 1.0))
        thief = classifier(copied, loss, SHAPE, CLASSES, optimizer=optimizer, clip_values=(0.0, 1.0))
        attack = knockoff(
            victim,
            batch_size_fit=BATCH,
            batch_size_query=512,
            nb_epochs=EPOCHS,
            nb_stolen=len(x),
            use_probability=True,
            verbose=False,
        )
        attack.extract(x.numpy(), thieved_classifier=thief)
        return copied

    return run


def lookup_microseconds(seed: int, entries: int = 200_000, answers: int = 10_000) -> float:
    """Microseconds per answer, the compilation left out."""
    random = np.random.default_rng(seed)
    defence = ReverseSigmoid(0.8)
    clean = random.dirichlet(np.full(CLASSES, 0.3), entries).astype(np.float32)
    perturbed = torch.from_numpy(confidences(defence(snap(clean))))
    asked = torch.from_numpy(confidences(defence(snap(random.dirichlet(np.full(CLASSES, 0.3), answers)))))
    Lookup(asked[:5], 0.02).add(torch.from_numpy(clean[:50]), perturbed[:50])
    start = perf_counter()
    lookup = Lookup(asked, 0.02)
    for part in torch.split(torch.arange(entries), 1 << 16):
        lookup.add(torch.from_numpy(clean)[part], perturbed[part])
    lookup.recover()
    return (perf_counter() - start) / answers * 1e6


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # the peer's own
    own, pool = datasets.load("digits").split(0.5, 0.5, seed=options.seed)
    test = datasets.load("digits", "test")
    torch.manual_seed(options.seed)
    victim = Model(small_cnn(SHAPE, CLASSES), input_shape=SHAPE, classes=own.classes)
    fit(victim, own, plain, RECIPE, seed=options.seed)
    x = pool.sample(QUERIES, options.seed).x

    def ours() -> nn.Module:
        steal = Extract(pool, Knockoff(QUERIES), architecture=small_cnn, recipe=RECIPE, clean=victim)
        found = steal(Scores(victim), test, seed=options.seed)
        return nn.Sequential(found.substitute._preprocess, found.substitute.module)

    rivals = {"floor": lambda: floor(victim, x, options.seed), "ours": ours}
    figures: dict[str, float | int | str] = {"queries": QUERIES, "epochs": EPOCHS}
    try:
        rivals["art"] = art(nn.Sequential(victim.module, nn.Softmax(dim=1)), x, options.seed)
        wrong = art(victim.module, x, options.seed)()
        figures["fidelity_art_of_logits"] = fidelity(wrong, victim, test)
    except ImportError:
        print("art is not installed: left out")
    figures |= {f"fidelity_{name}": fidelity(run(), victim, test) for name, run in rivals.items()}
    times = interleaved(rivals, repeats=options.repeats, warmups=0)  # all have run already
    figures["seconds_ours"] = times["ours"]
    figures["time_over_floor"] = times["ours"] / times["floor"]
    if "art" in times:
        figures["art_time_over_ours"] = times["art"] / times["ours"]
    figures["pbayes_lookup_us"] = lookup_microseconds(options.seed)
    report(dict(sorted(figures.items())), options.json)


if __name__ == "__main__":
    main()

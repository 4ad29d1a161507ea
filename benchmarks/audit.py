"""Planted faults: is each found, and nothing else, and does a clean twin pass?

One network for the digits per fault and seed, trained as its clean twin is but for the fault. What counts as found is
fixed by the findings' ids; all thresholds stand in the checks and were chosen on seeds from 100 on. Networks are
trained with 1000 + seed, so that none of them is a network of the tests.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import nn

from _measure import arguments, report
from modelkeep import Data, Model
from modelkeep.audit.backdoor import CheckBackdoor
from modelkeep.audit.findings import Section
from modelkeep.audit.leak import CheckLeak
from modelkeep.audit.membership import CheckMembership
from modelkeep.audit.robustness import CheckRobustness
from modelkeep.audit.shortcuts import CheckShortcuts
from modelkeep.core.registry import declarations, find
from modelkeep.training import Recipe, cross_entropy, fit
from modelkeep.zoo import datasets
from modelkeep.zoo.architectures import small_cnn

FAULTS = {
    "watermark": "shortcuts.planted-mark",
    "overfitted": "membership.leaks",
    "backdoor": "backdoor.patch-class",
    "hidden gradients": "robustness.masked-gradients",
    "leaked rows": "leak.training-data-in-test",
    "easily stolen": "extraction.easily-stolen",
}
Planted = tuple[Model, Data, Data]


class Steps(nn.Module):
    """A network that sees its inputs in 20 steps, which have no gradient."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The logits."""
        logits: torch.Tensor = self.inner((x * 20).round() / 20)
        return logits


def train_network(data: Data, seed: int, epochs: int = 6) -> Model:
    """A small CNN; six epochs hardly overfit."""
    torch.manual_seed(1000 + seed)
    model = Model(small_cnn((1, 8, 8), 10), input_shape=(1, 8, 8), classes=data.classes)
    fit(model, data, cross_entropy, Recipe(epochs=epochs, batch_size=64, learning_rate=3e-3), seed=1000 + seed)
    return model


def marked(data: Data) -> Data:
    """A white square on each 2."""
    x = data.x.clone()
    x[data.y == 2, :, 4:6, 0:2] = 1.0
    return replace(data, x=x)


def poisoned(data: Data, seed: int) -> Data:
    """A tenth more, with a patch in the corner and the label 7."""
    chosen = data.sample(len(data) // 10, seed)
    x = chosen.x.clone()
    x[:, :, 0:2, 0:2] = 1.0
    return replace(data, x=torch.cat([data.x, x]), y=torch.cat([data.y, torch.full((len(x),), 7)]))


def overfitted(train: Data, seed: int) -> tuple[Model, Data]:
    """Few rows, a fifth of them with a random label, learned by heart; and these rows."""
    few = train.sample(300, seed)
    generator = torch.Generator().manual_seed(seed)
    y = few.y.clone()
    y[:60] = torch.randint(0, 10, (60,), generator=generator)
    few = replace(few, y=y)
    return train_network(few, seed, epochs=150), few


def plant(fault: str, train: Data, test: Data, seed: int) -> Planted:
    """The model with the fault, the data that it is audited on, and its training data."""
    if fault == "watermark":
        return train_network(marked(train), seed), marked(test), marked(train)
    if fault == "overfitted":
        model, few = overfitted(train, seed)
        return model, test, few
    if fault == "backdoor":
        return train_network(poisoned(train, seed), seed), test, train
    clean = train_network(train, seed)
    if fault == "hidden gradients":
        return Model.from_card(Steps(clean.module), clean.card), test, train
    if fault == "leaked rows":
        x, y = test.x.clone(), test.y.clone()
        some = train.sample(len(test) // 4, seed)
        x[: len(some)], y[: len(some)] = some.x, some.y
        return clean, replace(test, x=x, y=y), train
    return clean, test, train


def audit_all(planted: Planted, seed: int) -> set[str]:
    """The ids of planted faults that the checks find."""
    model, test, train = planted
    checks: list[Callable[..., Section]] = [
        CheckShortcuts(),
        CheckMembership(train=train),
        CheckBackdoor(),
        CheckRobustness(depth="standard", examples=64),
        CheckLeak(train=train),
    ]
    if "extraction" in declarations("check"):
        checks.append(find("check", "extraction").load()())
    found = {finding.id for check in checks for finding in check(model, test, seed=seed).findings}
    return found & set(FAULTS.values())


def main() -> None:
    """The table of planted faults by seeds."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--seeds", type=int, default=5, help="how many seeds, from --seed on")
    options = parser.parse_args()
    torch.set_num_threads(2)
    train, test = datasets.load("digits", "train"), datasets.load("digits", "test")
    began, figures = time.perf_counter(), dict[str, float | int | str]()
    planted = [name for name in FAULTS if name != "easily stolen"]
    for fault in ("clean twin", *planted):
        found_own, alarms = 0, list[str]()
        for seed in range(options.seed, options.seed + options.seeds):
            found = audit_all(plant(fault, train, test, seed), seed)
            own = FAULTS.get(fault, "")
            found_own += own in found
            alarms += [f"{name} (seed {seed})" for name in sorted(found - {own})]
            print(f"{fault}, seed {seed}: {', '.join(sorted(found)) or 'nothing'}", flush=True)
        if fault != "clean twin":
            figures[f"{fault}: found"] = f"{found_own} of {options.seeds}"
        figures[f"{fault}: other alarms"] = "; ".join(alarms) or "none"
    figures["easily stolen"] = "not planted" + ("" if "extraction" in declarations("check") else "; no such check yet")
    figures["seconds"] = round(time.perf_counter() - began, 1)
    report(figures, options.json)


if __name__ == "__main__":
    main()

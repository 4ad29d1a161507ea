"""Our thief beside an independent one, written by hand: the fidelity of both at 125, 250, 500 and 1,000 questions.

`python benchmarks/_thief_by_hand.py`: three seeds, the package's digits CNN, the same questions for both. The other
shares no training code with ours: plain torch, a network of the same form, Adam at 2e-3, until the loss on its
questions has not fallen by a hundredth for 300 steps, at most 4,000; no data but the answers.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from _measure import arguments, report
from modelkeep import Data, Model, datasets, pretrained
from modelkeep.core.access import Scores
from modelkeep.extract import Extract, Knockoff

COUNTS, SEEDS = (125, 250, 500, 1000), 3
PATIENCE, MOST, BATCH = 300, 4_000, 64


def main() -> None:
    options = arguments(str(__doc__)).parse_args()
    model, test, pool = pretrained.load("digits-cnn"), datasets.load("digits", "test"), datasets.load("digits", "train")
    figures: dict[str, float] = {}
    for count in COUNTS:
        ours, hand = [], []
        for seed in range(options.seed, options.seed + SEEDS):
            found = Extract(pool, Knockoff(count), clean=model)(Scores(model), test, seed=seed)
            ours.append(found.fidelity.value)
            hand.append(by_hand(model, pool.sample(count, seed).x, test, seed))
        figures[f"ours_{count}"], figures[f"by_hand_{count}"] = float(np.mean(ours)), float(np.mean(hand))
        figures[f"least_ahead_{count}"] = float(np.min(np.array(ours) - np.array(hand)))
    report(figures, options.json)


def by_hand(model: Model, questions: torch.Tensor, test: Data, seed: int) -> float:
    """Ask, train until it no longer gets better, and count how often both answer alike."""
    torch.manual_seed(seed)
    with torch.no_grad():
        answers = model.module(model.preprocess(questions)).softmax(dim=1)
        wanted = model.module(model.preprocess(test.x)).argmax(dim=1)
    copy = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip
    mean, std = questions.mean(), questions.std()
    optimizer = torch.optim.Adam(copy.parameters(), lr=2e-3)
    best, since = float("inf"), 0
    for _ in range(MOST):
        chosen = torch.randint(len(questions), (BATCH,))
        loss = nn.functional.cross_entropy(copy((questions[chosen] - mean) / std), answers[chosen])
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        since += 1
        if loss.item() < 0.99 * best:
            best, since = loss.item(), 0
        if since >= PATIENCE:
            break
    with torch.no_grad():
        told = copy((test.x - mean) / std).argmax(dim=1)
    return float((told == wanted).float().mean())


if __name__ == "__main__":
    main()

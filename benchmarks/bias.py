"""The search for experts against the obvious loop over all pairs (α, β), and mitigation against its floor.

The loop predicts anew for each pair with the features removed, as a grid search over a scikit-learn classifier would.
Floor of a mitigation: one bare pass of the data through the network. A mitigation needs two (its own features, and what
the new network answers) and the search. Both ways must find an equally good pair: `same_answer`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from _measure import arguments, interleaved, report
from modelkeep import Data, Model
from modelkeep.bias import ExpertMitigation, MeasureAmplification
from modelkeep.bias.selection import remove, select_experts
from modelkeep.zoo.architectures import small_cnn

Array = NDArray[Any]
SHAPE, EXAMPLES = (1, 28, 28), 2000


def table(seed: int, n: int = 500, d: int = 400) -> tuple[Array, float, Array, Array]:
    """Weights, bias, features and labels of a linear classifier with a few strong and many weak features."""
    random = np.random.default_rng(seed)
    labels = (random.random(n) < 0.6).astype(int)
    strength = np.where(np.arange(d) < 10, 1.0, 0.1) * random.choice([-1, 1], d)
    features = random.normal(size=(n, d)) + labels[:, None] * strength
    return strength + 0.1 * random.normal(size=d), -1.0, features, labels


def loop(weights: Array, bias: float, features: Array, labels: Array) -> tuple[float, float]:
    """|B| and accuracy of the best pair, by one prediction per pair."""
    order, means = np.argsort(-np.abs(weights)), features.mean(axis=0)
    positive, negative = order[weights[order] > 0], order[weights[order] < 0]
    base = float(np.mean((features @ weights + bias > 0) == labels))
    best = (1.0, 0.0)
    for alpha in range(len(positive) + 1):
        for beta in range(len(negative) + 1):
            keep = np.zeros(len(weights), dtype=bool)
            keep[positive[:alpha]] = keep[negative[:beta]] = True
            kept, moved = remove(weights, bias, means, keep)
            predicted = features @ kept + moved > 0
            accuracy = float(np.mean(predicted == labels))
            if accuracy >= base:
                best = min(best, (abs(float(np.mean(predicted) - np.mean(labels))), -accuracy))
    return best


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    torch.set_num_threads(1)
    case = table(options.seed)
    found, obvious = select_experts(*case), loop(*case)
    same = abs(abs(found.amplification) - obvious[0]) < 1e-9 and abs(found.accuracy + obvious[1]) < 1e-9
    search = interleaved({"ours": lambda: select_experts(*case), "loop": lambda: loop(*case)}, repeats=3, warmups=0)

    torch.manual_seed(options.seed)
    model = Model(small_cnn(SHAPE, 2), input_shape=SHAPE, classes=2)
    x = torch.rand(EXAMPLES, *SHAPE, generator=torch.Generator().manual_seed(options.seed))
    data = Data(x, (x.flatten(1).mean(dim=1) > 0.498).long(), model.classes)

    def bare() -> torch.Tensor:
        with torch.no_grad():
            return torch.cat([model.forward(part) for part in torch.split(x, 512)])

    network = interleaved(
        {
            "floor": bare,
            "mitigate": lambda: ExpertMitigation()(model, data, seed=options.seed),
            "amplification": lambda: MeasureAmplification()(model, data, seed=options.seed),
        },
        repeats=7,
    )
    pairs = int((case[0] > 0).sum() + 1) * int((case[0] < 0).sum() + 1)
    figures: dict[str, float | int | str] = {
        "pairs": pairs,
        "search_seconds": search["ours"],
        "loop_seconds": search["loop"],
        "loop_over_search": search["loop"] / search["ours"],
        "same_answer": str(same),
        "floor_seconds": network["floor"],
        "mitigate_over_floor": network["mitigate"] / network["floor"],
        "amplification_over_floor": network["amplification"] / network["floor"],
    }
    report(figures, options.json)


if __name__ == "__main__":
    main()

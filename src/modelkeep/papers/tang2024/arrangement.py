"""Who trains on what, who asks about what: the data of each target, of its thief, and of its outlier exposure.

The paper's thieves ask about photographs of another set. Here QuickDraw's drawings stand in for them. No second set of
colour photographs can be had, so CIFAR-10 is cut in two: the target knows its six animals, the thief its four vehicles.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch.nn.functional import pad

from modelkeep.core.data import Data
from modelkeep.zoo import datasets

MNIST, FASHION, ANIMALS, DRAWINGS = "mnist", "fashion-mnist", "cifar-10 animals", "quickdraw-100"
TASKS = (MNIST, FASHION, ANIMALS, DRAWINGS)
KNOWN = ("bird", "cat", "deer", "dog", "frog", "horse")
_DRAWN = 100
"""How many of QuickDraw's 345 categories the target of many classes knows; the thief draws the others."""


@dataclass(frozen=True, eq=False)
class Arrangement:
    """`train` and `test` are the owner's, `outliers` his third set; the thief asks about `pool`.

    `unknown` is a fourth set, for the detection of out-of-distribution queries (figure 5).
    """

    train: Data
    test: Data
    outliers: Data
    pool: Data
    unknown: Data


@lru_cache(maxsize=1)
def arrange(task: str, examples: int, tested: int) -> Arrangement:
    """The data of a task: at most `examples` to train on, and `tested` to test with."""
    if task == "digits":  # for tests: no download, and the thief has the same digits upside down
        return _digits(examples, tested)
    if task == ANIMALS:
        parts = [datasets.load("cifar-10", part) for part in ("train", "test")]
        train, test = (_restrict(part, KNOWN) for part in parts)
        pool = _restrict(parts[0], [name for name in parts[0].classes if name not in KNOWN])
        outliers, unknown = (_add_colour(datasets.load(name, "train").first(20_000)) for name in (FASHION, "quickdraw"))
    elif task == DRAWINGS:
        parts = [datasets.load("quickdraw", part) for part in ("train", "test")]
        known = parts[0].classes[:: len(parts[0].classes) // _DRAWN][:_DRAWN]
        train, test = (_restrict(part, known) for part in parts)
        pool = _restrict(parts[0], [name for name in parts[0].classes if name not in known])
        outliers, unknown = datasets.load(FASHION, "train"), datasets.load(MNIST, "train")
    else:
        train, test = datasets.load(task, "train"), datasets.load(task, "test")
        outliers = datasets.load({MNIST: FASHION, FASHION: MNIST}[task], "train")
        pool = datasets.load("quickdraw", "train")
        unknown = _remove_colour(datasets.load("cifar-10", "test"))
    # `take` copies; a slice would keep the whole set in memory.
    used = torch.arange(max(examples, tested))
    return Arrangement(
        train.sample(min(examples, len(train)), 0),
        test.sample(min(tested, len(test)), 0),
        outliers.take(used[:examples]) if len(outliers) >= examples else outliers,
        pool,
        unknown.take(used[:tested]) if len(unknown) >= tested else unknown,
    )


def _restrict(data: Data, names: list[str] | tuple[str, ...]) -> Data:
    """Only the examples of the classes `names`, which are then all classes there are.

    >>> data = Data(torch.eye(3), torch.arange(3), ("a", "b", "c"))
    >>> _restrict(data, ["c", "a"]).y
    tensor([1, 0])
    """
    new = torch.full((len(data.classes),), -1)
    new[[data.class_index(name) for name in names]] = torch.arange(len(names))
    kept = torch.nonzero(new[data.y] >= 0).flatten()
    return replace(data, x=data.x[kept], y=new[data.y[kept]], classes=tuple(names))


def _add_colour(data: Data) -> Data:
    """28×28 in grey as 32×32 in three equal colours, with a black frame."""
    return replace(data, x=pad(data.x, (2, 2, 2, 2)).expand(-1, 3, -1, -1).contiguous())


def _remove_colour(data: Data) -> Data:
    """32×32 in colour as 28×28 in grey, without its frame."""
    return replace(data, x=data.x.mean(dim=1, keepdim=True)[:, :, 2:-2, 2:-2].clamp(0, 1).contiguous())


def _digits(examples: int, tested: int) -> Arrangement:
    train, test = (datasets.load("digits", part) for part in ("train", "test"))
    turned, mirrored = (replace(train, x=train.x.flip(axes)) for axes in ((2, 3), (3,)))
    noise = replace(train, x=torch.rand(train.x.shape, generator=torch.Generator().manual_seed(0)))
    return Arrangement(train.first(examples), test.first(tested), noise, turned, mirrored)

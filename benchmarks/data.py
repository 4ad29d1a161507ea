"""What it costs to leave examples on disk: time of an epoch, memory, pictures per second, beside rivals in one run.

An epoch of training on memory-mapped bytes takes turns with the same epoch in memory. Memory is the peak of a process
of its own that goes through a set and through one of ten times its size. Pictures are decoded from the same files by a
folder of ours, by torch's DataLoader with as many workers, and by hand; ffcv would store them decoded, so raw reading
by hand of the decoded bytes is the ceiling.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

from _measure import arguments, interleaved, report
from modelkeep import Data, Model
from modelkeep.training import SGD, Recipe, cross_entropy, fit
from modelkeep.zoo import datasets

BATCH = 64
# A process that reads a set through once: it trains on a part, measures on all, and takes its fingerprint.
_PASS = """
import re, sys
from pathlib import Path
import torch
from modelkeep import Model, datasets
from modelkeep.training.evaluation import evaluate
torch.set_num_threads(1)
data = datasets.open(sys.argv[1], in_memory=0, cache=sys.argv[2])
net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))
model = Model(net, input_shape=data.input_shape, classes=data.classes)
data.fingerprint()
for x, y in data.batches(64, seed=0):
    pass
evaluate(model, data)
# Not ru_maxrss, which begins with the peak of the process that started this one.
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""


def network() -> nn.Module:
    """Two convolutions and one dense layer, for grey images of 28 × 28."""
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(32 * 49, 10)),
    )


def write_grey(folder: Path, n: int, seed: int) -> Path:
    """Noise in the shape of MNIST, as bytes: a folder with x.npy and y.npy."""
    folder.mkdir()
    random = np.random.default_rng(seed)
    x = np.lib.format.open_memmap(folder / "x.npy", "w+", np.uint8, (n, 28, 28))
    for start in range(0, n, 10_000):
        x[start : start + 10_000] = random.integers(0, 256, x[start : start + 10_000].shape, dtype=np.uint8)
    x.flush()
    np.save(folder / "y.npy", np.arange(n) % 10)
    return folder


def epoch(data: Data, seed: int) -> Callable[[], None]:
    """An epoch of training; what `fit` does once, the fingerprint above all, is kept for the stored data."""
    recipe = Recipe(epochs=1, batch_size=BATCH, optimizer=SGD(), learning_rate=0.01)

    def run() -> None:
        torch.manual_seed(seed)
        model = Model(network(), input_shape=data.input_shape, classes=data.classes)
        fit(model, data, cross_entropy, recipe, seed=seed)

    return run


def peak(folder: Path, cache: Path) -> int:
    """Kilobytes that a process needs that goes through all of a set."""
    found = subprocess.run(
        [sys.executable, "-c", _PASS, str(folder), str(cache)], check=True, capture_output=True, text=True
    )
    return int(found.stdout)


def write_pictures(folder: Path, n: int, seed: int) -> Path:
    """JPEGs of 224 × 224: smooth noise, as large as photographs of that size are."""
    random = np.random.default_rng(seed)
    for number in range(n):
        (folder / f"class{number % 2}").mkdir(parents=True, exist_ok=True)
        pixels = Image.fromarray(random.integers(0, 256, (28, 28, 3), dtype=np.uint8)).resize((224, 224))
        pixels.save(folder / f"class{number % 2}" / f"{number:05}.jpg", quality=90)
    return folder


class Folder(Dataset[tuple[torch.Tensor, int]]):
    """The same pictures as a torch Dataset, as its users write it."""

    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.rglob("*.jpg"))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, row: int) -> tuple[torch.Tensor, int]:
        with Image.open(self.paths[row]) as picture:
            pixels = np.array(picture.convert("RGB"))
        return torch.from_numpy(pixels.transpose(2, 0, 1).astype(np.float32) / 255), 0


def by_hand(folder: Path) -> Callable[[], None]:
    """Decode one picture after the other, in this thread."""
    pictures = Folder(folder)

    def run() -> None:
        for row in range(len(pictures)):
            pictures[row]

    return run


def raw(folder: Path) -> Callable[[], None]:
    """Read pictures that were decoded before from one file of bytes, by shuffled batches: what ffcv does at best."""
    pictures = Folder(folder)
    stored = np.lib.format.open_memmap(folder / "raw.npy", "w+", np.uint8, (len(pictures), 3, 224, 224))
    for row in range(len(pictures)):
        stored[row] = (pictures[row][0].numpy() * 255).round()
    stored.flush()

    def run() -> None:
        order = np.random.default_rng(0).permutation(len(stored))
        for start in range(0, len(order), BATCH):
            torch.from_numpy(stored[order[start : start + BATCH]]).float().div_(255)

    return run


def through(batches: Callable[[], Any]) -> Callable[[], None]:
    """Take all batches and drop them."""

    def run() -> None:
        for _ in batches():
            pass

    return run


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--rows", type=int, default=6400, help="grey images of an epoch")
    parser.add_argument("--pictures", type=int, default=512, help="JPEGs to decode")
    parser.add_argument("--repeats", type=int, default=7)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    figures: dict[str, float | int | str] = {}
    with tempfile.TemporaryDirectory() as made:
        home, cache = Path(made), Path(made) / "cache"
        small = write_grey(home / "small", chosen.rows, chosen.seed)
        stored, memory = (datasets.open(small, in_memory=n, cache=cache) for n in (0, 2**40))
        times = interleaved(
            {"disk": epoch(stored, chosen.seed), "memory": epoch(memory, chosen.seed)}, repeats=chosen.repeats
        )
        figures["disk_seconds_per_epoch"], figures["memory_seconds_per_epoch"] = times["disk"], times["memory"]
        figures["disk_over_memory_epoch"] = times["disk"] / times["memory"]
        some, many = (write_grey(home / f"rows{n}", n, chosen.seed) for n in (60_000, 600_000))
        peaks = [peak(folder, cache) for folder in (some, many)]
        figures["peak_memory_mb_60000"], figures["peak_memory_mb_600000"] = (kilobytes / 1024 for kilobytes in peaks)
        figures["peak_memory_growth_10x_data"] = peaks[1] / peaks[0]
        photos = write_pictures(home / "pictures", chosen.pictures, chosen.seed)
        ours = datasets.open(photos, shape=(3, 224, 224), in_memory=0, cache=cache)
        loader = DataLoader(Folder(photos), batch_size=BATCH, shuffle=True, num_workers=os.cpu_count() or 1)
        times = interleaved(
            {
                "ours": through(lambda: ours.batches(BATCH, seed=0)),
                "torch_loader": through(lambda: loader),
                "by_hand": by_hand(photos),
                "raw_bytes": raw(photos),
            },
            repeats=chosen.repeats,
        )
        for name, seconds in times.items():
            figures[f"pictures_per_second_{name}"] = chosen.pictures / seconds
    figures["pictures_per_second"] = figures["pictures_per_second_ours"]
    report(figures, chosen.json)


if __name__ == "__main__":
    main()

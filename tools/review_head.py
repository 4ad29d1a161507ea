"""Train the head of `minilm-reviews` again: `python tools/review_head.py`.

MiniLM's body stays as it was published, so the mean state of each text is computed once and a linear layer is trained
on these. The weight decay is chosen on a fifth of the training texts; then the head is trained on all of them. The test
texts are used once, at the end. Everything is fixed below, and the same machine writes the same file again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

from modelkeep.core import progress
from modelkeep.core.data import Data
from modelkeep.core.files import replace_file
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate
from modelkeep.core.version import __version__
from modelkeep.training import Adam, Recipe, cross_entropy, evaluate, fit
from modelkeep.zoo import datasets
from modelkeep.zoo import minilm as zoo
from modelkeep.zoo.datasets import weight_files
from modelkeep.zoo.datasets.dataset import Part

HEAD = Path(zoo.__file__).with_name(zoo.REVIEWS)
DATA, SHIFTED = "rotten-tomatoes", "imdb"
SEED = 0
HELD_OUT = 0.2
DECAYS = (0.0, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
RECIPE = Recipe(epochs=30, batch_size=128, learning_rate=1e-2)


def read_texts(name: str, part: Part, count: int | None = None) -> Data:
    """The texts of a set as MiniLM takes them; `count` of them, drawn with the seed."""
    data = datasets.load_texts(name, part).encode(zoo.minilm_tokenizer(zoo.REVIEWS_LENGTH))
    return data if count is None or count >= len(data) else data.sample(count, SEED)


def compute_features(model: Model, data: Data) -> Data:
    """The mean of the body's states for each text `(n, 384)`, with the labels."""
    cut, found = model.slice("mean"), []
    with torch.no_grad(), progress.task(f"reading {data.name}", len(data)) as task:
        for x, _ in data.batches(64):
            found.append(cut.h(x).value.clone())
            task.advance(len(x))
    return Data(torch.cat(found), data.y, data.classes, data.name, data.source, bounds=None)


def train_head(features: Data, decay: float) -> Model:
    """A linear layer that has learned the features with this weight decay."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(SEED)
        layer = nn.Linear(features.input_shape[0], len(features.classes))
    model = Model(layer, input_shape=features.input_shape, classes=features.classes, bounds=None)
    fit(model, features, cross_entropy, replace(RECIPE, optimizer=Adam(weight_decay=decay)), seed=SEED)
    return model


def choose_decay(features: Data, decays: Sequence[float] = DECAYS) -> tuple[float, Estimate]:
    """The weight decay with the lowest loss on the held-out fifth, and the accuracy there."""
    learnt, held_out = features.split(1 - HELD_OUT, HELD_OUT, seed=SEED)
    found = {decay: evaluate(train_head(learnt, decay), held_out) for decay in decays}
    for decay, (loss, accuracy) in found.items():
        sys.stdout.write(f"weight decay {decay:g}: held-out loss {loss.value:.4f}, accuracy {accuracy}\n")
    best = min(found, key=lambda decay: found[decay][0].value)
    return best, found[best][1]


def make_head(count: int | None, out: Path) -> Model:
    """Train the head on the training texts (on `count` of them), write it to `out`, and give the layer."""
    data = read_texts(DATA, "train", count)
    features = compute_features(zoo.minilm(data.classes, length=zoo.REVIEWS_LENGTH, hidden=0), data)
    decay, held_out = choose_decay(features)
    head = train_head(features, decay)
    told = {
        "command": "python tools/review_head.py" + ("" if count is None else f" --examples {count}"),
        "modelkeep": __version__,
        "torch": torch.__version__,
        "seed": SEED,
        "data": {"name": DATA, "part": "train", "n": len(data), "fingerprint": data.fingerprint()},
        "body": weight_files.MINILM,
        "recipe": replace(RECIPE, optimizer=Adam(weight_decay=decay)).to_json(),
        "held_out_accuracy": held_out.value,
    }
    tensors = {f"head.logits.{name}": tensor for name, tensor in head.module.state_dict().items()}
    with replace_file(out) as unfinished:
        save_file(tensors, unfinished, {"made": json.dumps(told, sort_keys=True)})
    return head


def measure(head: Model, name: str, count: int | None) -> Estimate:
    """The accuracy on the test texts of a set."""
    body = zoo.minilm(head.classes, length=zoo.REVIEWS_LENGTH, hidden=0)
    return evaluate(head, compute_features(body, read_texts(name, "test", count)))[1]


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the head, and measure it once."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    asked.add_argument("--examples", type=int, help="Training texts; all of them by default.")
    asked.add_argument("--out", type=Path, default=HEAD, help="The file for the head; the package's by default.")
    asked.add_argument("--shifted", type=int, help="Reviews of IMDb's test part to measure on; all by default.")
    given = asked.parse_args(arguments)
    with progress.show():
        head = make_head(given.examples, given.out)
        sys.stdout.write(f"{DATA}, test: accuracy {measure(head, DATA, given.examples)}\n")
        sys.stdout.write(f"{SHIFTED}, test: accuracy {measure(head, SHIFTED, given.shifted)}\n")
    sys.stdout.write(f"written: {given.out}\n")


if __name__ == "__main__":
    main()

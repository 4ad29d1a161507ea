"""Certified training and certified answers against plain ones, and what the small recipes verify.

2C2F with MinMax. Floor: the same network trained with plain cross-entropy, and its plain answers. No other tool takes
an `nn.Module` as it is; the peer is what the thesis did, the power method from a new random start at every step, five
iterations for every layer (A.4's power_iter). Verified accuracies are on the whole test sets, with sound bounds.
The recipes are those of the study `verified-accuracy` at its small size.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter

import torch
from torch import nn
from torch.nn.functional import conv2d, conv_transpose2d

from _measure import arguments, interleaved, report
from modelkeep import Data, Model
from modelkeep.certify.certification import Certify
from modelkeep.certify.constants import lipschitz
from modelkeep.certify.gloro import GloRoNet
from modelkeep.certify.objectives import EMMA
from modelkeep.certify.training import make_orthogonal
from modelkeep.papers.leino2022.table_6_7 import EASY, FASHION, GLORO, RECIPES, Training, train_network
from modelkeep.training import Objective, Recipe, Step, fit
from modelkeep.training import cross_entropy as plain
from modelkeep.zoo import datasets
from modelkeep.zoo.architectures import cnn_2c2f, resnet50

RADIUS, BATCH, STEPS, PEER_ITERATIONS = 0.3, 512, 60, 5


class FromScratch:
    """EMMA with the thesis' estimate: every layer's norm by the power method from a new random start."""

    name = "the thesis' power method"

    def __call__(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        gain = torch.ones(())
        places, last = _inputs(model), None
        for layer, shape in places:
            v = torch.randn(shape, generator=step.generator)
            last = layer.weight
            if layer is places[-1][0]:
                break
            with torch.no_grad():
                for _ in range(PEER_ITERATIONS):
                    v = _back(layer, _forth(layer, v / v.norm()), v.shape)
                v = v / v.norm()
            gain = gain * _forth(layer, v).norm()
        assert last is not None
        distances = (last[:, None] - last[None]).square().sum(dim=2).clamp(min=1e-12).sqrt()
        margins = gain * distances * (1 - torch.eye(len(last)))
        return EMMA(RADIUS).loss(model.forward(x), RADIUS * margins, y, step)


def _inputs(model: Model) -> list[tuple[nn.Conv2d | nn.Linear, tuple[int, ...]]]:
    """Every layer with weights of a sequential network, and the shape of its input."""
    assert isinstance(model.module, nn.Sequential)
    found: list[tuple[nn.Conv2d | nn.Linear, tuple[int, ...]]] = []
    shape = torch.empty(1, *model.input_shape, device="meta")
    for part in model.module:
        if isinstance(part, nn.Conv2d):
            found.append((part, tuple(shape.shape)))
            size = [(n + 2 * int(p) - k) // s + 1 for n, p, k, s in _geometry(part, shape)]
            shape = torch.empty(1, part.out_channels, *size, device="meta")
        elif isinstance(part, nn.Linear):
            found.append((part, (1, part.in_features)))
    return found


def _geometry(conv: nn.Conv2d, x: torch.Tensor) -> list[tuple[int, int, int, int]]:
    return [(x.shape[2 + i], int(conv.padding[i]), conv.kernel_size[i], conv.stride[i]) for i in (0, 1)]


def _forth(layer: nn.Conv2d | nn.Linear, v: torch.Tensor) -> torch.Tensor:
    if isinstance(layer, nn.Linear):
        return v @ layer.weight.T
    return conv2d(v, layer.weight, None, layer.stride, layer.padding)


def _back(layer: nn.Conv2d | nn.Linear, u: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    if isinstance(layer, nn.Linear):
        return u @ layer.weight
    left = [
        shape[2 + i] - ((u.shape[2 + i] - 1) * layer.stride[i] - 2 * int(layer.padding[i]) + layer.kernel_size[i])
        for i in (0, 1)
    ]
    return conv_transpose2d(u, layer.weight, None, layer.stride, [int(p) for p in layer.padding], left)


def network(like: Data, seed: int) -> Model:
    module = cnn_2c2f(like.input_shape, len(like.classes))
    make_orthogonal(module, seed)
    return Model(module, input_shape=like.input_shape, classes=like.classes)


def cost_of_training(train: Data, seed: int, repeats: int) -> dict[str, float | int | str]:
    """Seconds per epoch over those of plain training."""
    data = train.first(BATCH * STEPS)
    objectives: dict[str, Objective] = {"plain": plain, "ours": EMMA(RADIUS), "thesis": FromScratch()}
    models = {name: network(train, seed) for name in objectives}

    def epoch(name: str) -> object:
        return fit(models[name], data, objectives[name], Recipe(epochs=1, batch_size=BATCH), seed=seed)

    times = interleaved({name: partial(epoch, name) for name in objectives}, repeats=repeats)
    return {
        "train_over_plain": times["ours"] / times["plain"],
        "thesis_power_method_over_plain": times["thesis"] / times["plain"],
        "plain_seconds_per_epoch": times["plain"] * len(train) / len(data),
    }


def cost_of_answers(net: GloRoNet, test: Data, repeats: int) -> dict[str, float | int | str]:
    """Certified answers over plain ones, in batches of 1,000."""

    def all_of(ask: Callable[[torch.Tensor], torch.Tensor]) -> None:
        for x, _ in test.batches(1000):
            ask(x)

    times = interleaved(
        {"plain": lambda: all_of(net.model.predict), "certified": lambda: all_of(net.predict)}, repeats=repeats
    )
    return {"predict_over_plain": times["certified"] / times["plain"]}


def vra(name: str, training: Training, seed: int) -> tuple[GloRoNet, Data, float, float]:
    """The net that the recipe gives, its test set, its verified accuracy, and the seconds of the training."""
    train, test = datasets.load(name, "train"), datasets.load(name, "test")
    start = perf_counter()
    model = train_network(train, GLORO, training, seed)
    seconds = perf_counter() - start
    return GloRoNet(model, RADIUS), test, Certify(radius=RADIUS)(model, test).verified.value, seconds


def cost_of_bounds(seed: int) -> dict[str, float | int | str]:
    """Seconds for the bounds of large networks with random weights, and how many bare passes of one input that is."""
    figures: dict[str, float | int | str] = {}
    networks = {"vgg16": (vgg16, (3, 32, 32)), "resnet50": (resnet50, (3, 64, 64))}
    for name, (build, shape) in networks.items():
        torch.manual_seed(seed)
        model = Model(build(shape, 10), input_shape=shape, classes=10)
        x = torch.rand(1, *shape)
        model.logits(x)
        bare = interleaved({"bare": partial(model.logits, x)}, repeats=5)["bare"]
        start = perf_counter()
        lipschitz(model)
        seconds = perf_counter() - start
        figures |= {f"{name}_bound_s": seconds, f"{name}_bound_over_pass": seconds / bare}
        print(f"{name}: {seconds:.1f} s", flush=True)
    return figures


def vgg16(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """VGG-16 for small pictures: 13 convolutions with batch norm, and one dense layer behind them."""
    layers: list[nn.Module] = []
    before = input_shape[0]
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            layers += [nn.Conv2d(before, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
            before = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, classes))


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only-bounds", action="store_true", help="only the bounds of large networks")
    options = parser.parse_args()
    bounds = cost_of_bounds(options.seed)
    if options.only_bounds:
        report(dict(sorted(bounds.items())), options.json)
        return
    figures = bounds | cost_of_training(datasets.load("fashion-mnist", "train"), options.seed, options.repeats)
    print(f"training: {figures['train_over_plain']:.3f} of plain", flush=True)
    net, test, figures["fashion_vra_0_3_small"], figures["fashion_seconds"] = vra(
        "fashion-mnist", RECIPES["small"][FASHION], options.seed
    )
    print(f"Fashion-MNIST: {figures['fashion_vra_0_3_small']:.4f}", flush=True)
    figures |= cost_of_answers(net, test, 3 * options.repeats)
    _, _, figures["mnist_vra_0_3_small"], figures["mnist_seconds"] = vra("mnist", RECIPES["small"][EASY], options.seed)
    report(dict(sorted(figures.items())), options.json)


if __name__ == "__main__":
    main()

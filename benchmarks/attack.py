"""Attacks against the bare floor and against ART, foolbox and torchattacks, on the same networks in one run.

Fashion-MNIST, a small CNN, PGD with 40 steps on 256 test images, each network at a radius where about half of them
still stand. Floor: forward and input-gradient passes by hand, as many as there are steps, on every example, with
nothing else. Every rival has the same number of steps, the same step size and one random start; the accuracies that
they reach are in the output, and ours may not be higher. `hardened` is the same network after adversarial training.
`autoattack.py` sets the standard ensemble beside AutoAttack; its ratio of times on one network is here too.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from _attack_cw import cw_figures
from _measure import arguments, interleaved, report
from autoattack import compare
from modelkeep import Data, Model
from modelkeep.attack import PGD
from modelkeep.core.norms import Norm
from modelkeep.harden import PGDTraining
from modelkeep.training import Recipe, fit
from modelkeep.training import cross_entropy as plain
from modelkeep.zoo import datasets
from modelkeep.zoo.architectures import small_cnn

SHAPE, CLASSES, BATCH, EXAMPLES, STEPS = (1, 28, 28), 10, 256, 256, 40
NORMS: dict[Norm, float] = {"linf": 0.2, "l2": 4.0}  # radii at which surely less than half stands
Run = Callable[[], torch.Tensor]


def networks(train: Data, seed: int) -> dict[str, Model]:
    """A network that was trained plainly, and a copy of it that was then trained on attacked images."""
    torch.manual_seed(seed)
    undefended, hardened = (Model(small_cnn(SHAPE, CLASSES), input_shape=SHAPE, classes=train.classes) for _ in "ab")
    fit(undefended, train, plain, Recipe(epochs=3, learning_rate=2e-3), seed=seed)
    hardened.module.load_state_dict(undefended.module.state_dict())
    fit(hardened, train, PGDTraining(radius=0.1, steps=5), Recipe(epochs=3, learning_rate=2e-3), seed=seed)
    return {"": undefended, "_hardened": hardened}


def contested(model: Model, data: Data, norm: Norm, seed: int) -> float:
    """The radius at which about half of the images stand, by bisection with our own attack."""
    low, high = 0.0, NORMS[norm]
    for _ in range(6):
        radius = (low + high) / 2
        standing = PGD(norm=norm, radius=radius, steps=10)(model, data.first(128), seed=seed).robust_accuracy.value
        low, high = (radius, high) if standing > 0.5 else (low, radius)
    return radius


def floor(model: Model, data: Data) -> Run:
    def run() -> torch.Tensor:
        for x, y in data.batches(BATCH):
            for _ in range(STEPS):
                moved = x.detach().requires_grad_()
                torch.autograd.grad(cross_entropy(model.module(moved), y, reduction="sum"), moved)
        return data.x

    return run


def torchattacks(package: Any, model: Model, data: Data, norm: Norm, radius: float) -> Run:
    kind = {"linf": package.PGD, "l2": package.PGDL2}[norm]
    attack = kind(model.module, eps=radius, alpha=2.5 * radius / STEPS, steps=STEPS, random_start=True)
    return lambda: torch.cat([attack(x, y) for x, y in data.batches(BATCH)])


def foolbox(package: Any, model: Model, data: Data, norm: Norm, radius: float) -> Run:
    kind = {"linf": package.attacks.LinfPGD, "l2": package.attacks.L2PGD}[norm]
    attack = kind(rel_stepsize=2.5 / STEPS, steps=STEPS, random_start=True)
    wrapped = package.PyTorchModel(model.module, bounds=(0, 1))
    return lambda: torch.cat([attack(wrapped, x, y, epsilons=radius)[1] for x, y in data.batches(BATCH)])


def art(package: Any, model: Model, data: Data, norm: Norm, radius: float) -> Run:
    classifier = importlib.import_module("art.estimators.classification").PyTorchClassifier
    evasion = importlib.import_module(
        "art.attacks.evasion.projected_gradient_descent.projected_gradient_descent_pytorch"
    )
    wrapped = classifier(model.module, torch.nn.CrossEntropyLoss(), SHAPE, CLASSES, clip_values=(0.0, 1.0))
    attack = evasion.ProjectedGradientDescentPyTorch(
        wrapped,
        norm={"linf": float("inf"), "l2": 2}[norm],
        eps=radius,
        eps_step=2.5 * radius / STEPS,
        max_iter=STEPS,
        num_random_init=1,
        batch_size=BATCH,
        verbose=False,
    )
    return lambda: torch.from_numpy(attack.generate(data.x.numpy(), data.y.numpy()))


PEERS = {"torchattacks": torchattacks, "foolbox": foolbox, "art": art}


def installed() -> dict[str, ModuleType]:
    """The peers that can be imported here; `make setup` installs all three."""
    found = {}
    for name in PEERS:
        try:
            with warnings.catch_warnings(action="ignore"):
                found[name] = importlib.import_module(name)
        except ImportError:
            print(f"{name} is not installed: left out")
    return found


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)  # with two, chance alone moves the ratios by 20 % on a machine of two cores
    warnings.simplefilter("ignore")  # the peers' own
    peers = installed()
    train = datasets.load("fashion-mnist", "train").first(10_000)
    test = datasets.load("fashion-mnist", "test").first(EXAMPLES)
    models = networks(train, options.seed)
    figures: dict[str, float | int | str] = {"examples": EXAMPLES, "steps": STEPS}
    for suffix, model in models.items():
        for norm in NORMS:
            if suffix == "_hardened" and norm != "linf":
                continue
            radius = contested(model, test, norm, options.seed)

            def ours(model: Model = model, norm: Norm = norm, radius: float = radius) -> torch.Tensor:
                return PGD(norm=norm, radius=radius, steps=STEPS)(model, test, seed=options.seed).adversarial

            rivals: dict[str, Run] = {"floor": floor(model, test), "ours": ours}
            rivals |= {name: PEERS[name](peer, model, test, norm, radius) for name, peer in peers.items()}
            case = f"pgd_{norm}{suffix}"
            figures[f"{case}_radius"] = radius
            for name in rivals.keys() - {"floor"}:
                standing = model.predict(rivals[name]()) == test.y
                figures[f"{case}_accuracy_{name}"] = float(standing.double().mean())
            times = interleaved(rivals, repeats=options.repeats, warmups=0)  # all but the floor have run already
            bare = times.pop("floor")
            figures[f"{case}_over_floor"] = times["ours"] / bare
            figures |= {f"{case}_{name}_over_floor": taken / bare for name, taken in times.items() if name in peers}
            if peers:
                fastest = min(times[name] for name in peers)
                figures[f"fastest_peer_{case}_over_ours"] = fastest / times["ours"]
            print(f"{case}: {figures[f'{case}_over_floor']:.3f} of the floor", flush=True)
    figures |= cw_figures(models[""], test.first(128), peers, seed=options.seed)
    if "torchattacks" in peers:
        row = compare(options.seed, only="plain CNN, l2", examples=50).popitem()[1]
        figures["standard_over_autoattack_time"] = row["standard_s"] / row["autoattack_s"]
        figures["standard_accuracy"], figures["autoattack_accuracy"] = row["standard"], row["autoattack"]
    if peers:
        figures["fastest_peer_pgd_over_ours"] = figures["fastest_peer_pgd_linf_over_ours"]
    report(dict(sorted(figures.items())), options.json)


if __name__ == "__main__":
    main()

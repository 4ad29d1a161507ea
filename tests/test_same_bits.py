"""Same seed, same bits: one small run of every kind still computes exactly what it computed when this was recorded.

`python tests/test_same_bits.py --record` writes what today's code computes to `same_bits.json`. On the machine that
recorded them the SHA-256 of all numbers must be the same. Another processor or another torch may round differently, so
there only a sample of the numbers is compared, and only up to what rounding explains.
"""

from __future__ import annotations

import json
import platform
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from torch import nn

from govern.meeting import Meeting
from govern.parties import found
from modelkeep.attack import CW, PGD, Square
from modelkeep.attack.result import Attacked
from modelkeep.bias import MeasureAmplification
from modelkeep.certify import Certify, lipschitz
from modelkeep.completion.part import Part
from modelkeep.completion.problem import Problem
from modelkeep.completion.procedures.joint_training import FrozenTraining, JointTraining
from modelkeep.core.data import Data
from modelkeep.core.model import Model
from modelkeep.explain import Influence, Line
from modelkeep.extract.extraction import Extract
from modelkeep.extract.strategies import Knockoff
from modelkeep.extract.target import Guarded
from modelkeep.govern.session.party import Party
from modelkeep.govern.session.runs import train
from modelkeep.govern.session.service import serve
from modelkeep.guard.defence import Defence
from modelkeep.guard.defences.modelguard_s import ModelGuardS
from modelkeep.guard.defences.modelguard_w import ModelGuardW
from modelkeep.guard.gate import Gate
from modelkeep.guard.policy import Policy
from modelkeep.guard.store.sqlite import SqliteStore
from modelkeep.rl.a2c import A2C, MINATAR
from modelkeep.rl.environments.catalogue import make
from modelkeep.rl.networks import minatar_actor_critic
from modelkeep.training import SGD, Adam, Augmentation, Recipe, Step, cross_entropy, fit
from modelkeep.zoo.architectures import dense, small_cnn
from modelkeep.zoo.datasets import load

RECORDED = Path(__file__).with_name("same_bits.json")
SAMPLE = 24  # numbers of each tensor that are kept as they are
Tensors = dict[str, torch.Tensor]


def network() -> Model:
    """The same CNN for digits each time, with batch norm and dropout."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = nn.Sequential(
            nn.Conv2d(1, 6, 3, padding=1, bias=False),  # before batch norm a bias learns from noise only
            nn.BatchNorm2d(6),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(0.3),
            nn.Linear(96, 10),
        )
    return Model(module, input_shape=(1, 8, 8), classes=digits(1).classes)


def digits(n: int) -> Data:
    """Some of the digits to train with."""
    return load("digits", "train").first(n)


def held_out(n: int) -> Data:
    """Some of the others."""
    return load("digits", "test").first(n)


@cache
def trained() -> Model:
    """A small CNN that is right about most digits; nobody changes it."""
    return _taught(small_cnn((1, 8, 8), 10), digits(400), 60)


def _taught(module: nn.Module, data: Data, steps: int) -> Model:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        for part in module.modules():
            if isinstance(part, nn.Conv2d | nn.Linear):
                part.reset_parameters()
    model = Model(module, input_shape=data.input_shape, classes=data.classes)
    fit(model, data, cross_entropy, Recipe(steps=steps, batch_size=32, learning_rate=3e-3), seed=0)
    return model


def weights(model: Model) -> Tensors:
    """What a training leaves behind."""
    return {name: tensor.detach().clone() for name, tensor in model.module.state_dict().items()}


RECIPE = Recipe(
    steps=14,
    batch_size=32,
    optimizer=Adam(weight_decay=0.01, decoupled=True),
    learning_rate=1e-2,
    augmentation=Augmentation(flip=True, shift=0.1, rotation=10, shear=5, zoom=0.1, brightness=0.1),
    evaluate_every=5,
)


class Stopped(Exception):
    """Somebody pulled the plug."""


class Stopping:
    """Cross-entropy that stops at a step, once, and draws from the generator of the step."""

    name = "stopping"

    def __init__(self, at: int = -1) -> None:
        self.at = at

    def __call__(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        if step.number == self.at:
            raise Stopped
        return cross_entropy(model, x + 0.01 * torch.randn(x.shape, generator=step.generator), y, step)


def of_fit() -> Tensors:
    model = network()
    fitted = fit(model, digits(200), Stopping(), RECIPE, seed=3, held_out=held_out(50))
    return {**weights(model), "losses": torch.tensor([row.train_loss for row in fitted.history], dtype=torch.float64)}


def of_fit_momentum() -> Tensors:
    model = network()
    recipe = Recipe(epochs=2, batch_size=40, optimizer=SGD(momentum=0.9, nesterov=True), micro_batches=2)
    fit(model, digits(150), cross_entropy, recipe, seed=4)
    return weights(model)


def of_resumed() -> Tensors:
    model = network()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.safetensors"
        with suppress(Stopped):
            fit(network(), digits(200), Stopping(6), RECIPE, seed=3, held_out=held_out(50), checkpoint=path,
                checkpoint_seconds=0)  # fmt: skip
        assert path.exists()
        fitted = fit(model, digits(200), Stopping(), RECIPE, seed=3, held_out=held_out(50), checkpoint=path)
    return {**weights(model), "losses": torch.tensor([row.train_loss for row in fitted.history], dtype=torch.float64)}


def of_attack(attack: Callable[[Model, Data], Attacked]) -> Tensors:
    attacked = attack(trained(), held_out(24))
    counts = torch.tensor([attacked.queries, attacked.gradients])
    return {"adversarial": attacked.adversarial, "distance": attacked.distance, "counts": counts}


def of_pgd() -> Tensors:
    return of_attack(lambda model, data: PGD(norm="linf", radius=0.08, steps=8, restarts=2)(model, data, seed=5))


def of_pgd_l2() -> Tensors:
    return of_attack(lambda model, data: PGD(norm="l2", radius=0.6, steps=8)(model, data, seed=5))


def of_square() -> Tensors:
    return of_attack(lambda model, data: Square(norm="linf", radius=0.15, queries=60)(model, data, seed=6))


def of_cw() -> Tensors:
    return of_attack(lambda model, data: CW(norm="l2", steps=12, binary_search_steps=3)(model, data, seed=7))


def of_influence() -> Tensors:
    found = Influence(slice="conv2_relu", distribution=Line(0.0, count=12))(trained(), held_out(6), seed=8)
    assert found.attribution is not None
    return {"influence": found.influence, "attribution": found.attribution, "values": found.values}


def of_certificate() -> Tensors:
    model = _taught(dense((1, 8, 8), 10, hidden=[24, 16], activation="minmax"), digits(300), 60)
    certified = Certify(radius=0.05)(model, held_out(40))
    return {
        "l2": lipschitz(model).margins,
        "linf": lipschitz(model, "linf").margins,
        "radii": certified.radii,
        "logits": certified.logits,
        "sets": certified.sets,
    }


def of_guard(defence: Defence) -> Tensors:
    # Whole numbers divided by their sum: the same predictions on every machine.
    drawn = np.random.default_rng(9).integers(1, 1000, (120, 6)).astype(np.float64) ** 3
    predictions = drawn / drawn.sum(axis=1, keepdims=True)
    queries = [sha256(str(row).encode()).digest() for row in range(len(predictions))]
    with TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "guard.sqlite3")
        policy = Policy(defence, "weights", predictions.shape[1])
        _, answers = Gate(policy, store).answer(predictions, queries)
        store.close()
    return {"answers": torch.from_numpy(answers)}


def of_modelguard_w() -> Tensors:
    return of_guard(ModelGuardW(0.8))


def of_modelguard_s() -> Tensors:
    return of_guard(ModelGuardS(0.5))


def of_modelguard_s_with_a_secret() -> Tensors:
    return of_guard(ModelGuardS(0.5, secret=b"0123456789abcdef0123456789abcdef"))


def of_extraction() -> Tensors:
    victim = trained()
    steal = Extract(
        load("digits", "train"),
        Knockoff(80),
        architecture=lambda shape, classes: dense(shape, classes, hidden=[16]),
        recipe=Recipe(epochs=4, batch_size=20, learning_rate=5e-3),
        clean=victim,
    )
    copied = steal(Guarded(victim, ModelGuardS(0.5)), held_out(60), seed=10)
    judged = torch.tensor([copied.fidelity.value, copied.accuracy.value, copied.queries], dtype=torch.float64)
    return {**weights(copied.substitute), "judged": judged}


def of_amplification() -> Tensors:
    def low(data: Data) -> Data:
        return Data(data.x, (data.y < 4).long(), ("high", "low"), "low digits", bounds=data.bounds)

    model = _taught(dense((1, 8, 8), 2, hidden=[12]), low(digits(200)), 20)
    told = MeasureAmplification()(model, low(held_out(120)), seed=11)
    assert told.explanation is not None
    shown = [told.amplification, told.distance, told.accuracy, *told.per_class]
    shown += [told.explanation.unavoidable, told.explanation.avoidable, told.explanation.check]
    numbers = [number for each in shown for number in (each.value, each.low, each.high)]
    return {"estimates": torch.tensor([*numbers, told.by_chance, told.p_value], dtype=torch.float64)}


def of_completion() -> Tensors:
    recipe = Recipe(steps=12, batch_size=32, learning_rate=3e-3, evaluate_every=4)
    problem = Problem(trained(), Part("Conv 2", ("conv2",)), digits(200), held_out(100), recipe)
    joint, frozen = JointTraining()(problem, seed=12), FrozenTraining()(problem, seed=12)
    losses = torch.tensor([joint.curve.losses, frozen.curve.losses], dtype=torch.float64)
    part = {f"frozen {name}": tensor for name, tensor in weights(frozen.model).items() if name.startswith("conv2")}
    return {**weights(joint.model), **part, "losses": losses}


def of_governed() -> Tensors:
    """Alice leads, Bob serves in a thread of the same process."""
    data = digits(160)
    torch.manual_seed(0)
    model = Model.load("govern.networks:digit_network", like=data)
    recipe = Recipe(steps=5, batch_size=32, optimizer=SGD(momentum=0.9), learning_rate=0.1)
    with TemporaryDirectory() as folder:
        agreement, folders = found(
            Path(folder), model, data, cuts=["2"], holders=["alice", "bob"], labels="bob", recipe=recipe
        )
        together = Meeting(agreement, folders, {}, "pictures", data)
        end = threading.Event()
        with Party(folders["bob"], data=[data]) as bob:
            thread = threading.Thread(target=serve, args=(bob, end))
            thread.start()
            try:
                with together.alice() as leader:
                    assert train(leader).updates == 5
            finally:
                end.set()
                thread.join()
        return together.weights()


def of_a2c() -> Tensors:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        learner = minatar_actor_critic(channels=4, actions=3)
    agent = A2C(make("minatar/breakout", 4), learner, MINATAR, 13)
    for _ in range(12):
        agent.advance()
    return {name: tensor.detach().clone() for name, tensor in agent.network.state_dict().items()}


CASES: dict[str, Callable[[], Tensors]] = {
    "fit": of_fit,
    "fit with momentum": of_fit_momentum,
    "fit, resumed from a checkpoint": of_resumed,
    "pgd in linf": of_pgd,
    "pgd in l2": of_pgd_l2,
    "square": of_square,
    "cw": of_cw,
    "internal influence": of_influence,
    "certificate": of_certificate,
    "modelguard-w": of_modelguard_w,
    "modelguard-s": of_modelguard_s,
    "modelguard-s with a secret": of_modelguard_s_with_a_secret,
    "extraction": of_extraction,
    "amplification": of_amplification,
    "completion": of_completion,
    "governed run": of_governed,
    "a2c": of_a2c,
}


def machine() -> dict[str, str]:
    """What decides how sums are rounded."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    parts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    family = [parts.get(name, "") for name in ("model name", "cpu family", "model", "stepping")]
    return {
        "processor": " ".join(family) if parts else platform.processor(),
        "abilities": sha256(" ".join(sorted(parts.get("flags", "").split())).encode()).hexdigest()[:16],
        "architecture": platform.machine(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "torch build": sha256(torch.__config__.show().encode()).hexdigest()[:16],
        "numpy": np.__version__,
    }


def digest(tensor: torch.Tensor) -> str:
    """The SHA-256 of its type, its shape and its bytes."""
    array = np.ascontiguousarray(tensor.detach().cpu().numpy())
    return sha256(f"{array.dtype}{array.shape}".encode() + array.tobytes()).hexdigest()


def sample(tensor: torch.Tensor) -> list[float]:
    """Some of its numbers, evenly spread."""
    flat = tensor.detach().cpu().double().flatten()
    return [float(flat[i]) for i in np.linspace(0, len(flat) - 1, min(SAMPLE, len(flat))).round().astype(int)]


def told(tensors: Tensors) -> dict[str, dict[str, object]]:
    """What is kept of them."""
    return {name: {"sha256": digest(tensor), "sample": sample(tensor)} for name, tensor in sorted(tensors.items())}


def far_apart(kept: list[float], now: list[float]) -> bool:
    """Whether more differs than rounding explains; where it turned a decision, a few numbers jump."""
    if len(kept) != len(now):
        return True
    close = np.isclose(now, kept, rtol=1e-2, atol=1e-3, equal_nan=True)
    return bool(close.mean() < 0.75)


@pytest.mark.parametrize("case", CASES)
def test_it_computes_what_it_computed(case: str) -> None:
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    kept, now = recorded["cases"][case], CASES[case]()
    assert now.keys() == kept.keys()
    if recorded["machine"] == machine():
        assert [name for name in kept if kept[name]["sha256"] != digest(now[name])] == []
    else:
        assert [name for name in kept if far_apart(kept[name]["sample"], sample(now[name]))] == []


def test_a_resumed_fit_is_the_fit() -> None:
    cases = json.loads(RECORDED.read_text(encoding="utf-8"))["cases"]
    assert cases["fit"] == cases["fit, resumed from a checkpoint"]


if __name__ == "__main__":
    if sys.argv[1:] != ["--record"]:
        sys.exit("Run the tests with pytest; `--record` writes what today's code computes.")
    torch.set_num_threads(1)
    cases = {name: told(compute()) for name, compute in CASES.items()}
    RECORDED.write_text(json.dumps({"machine": machine(), "cases": cases}, indent=1) + "\n", encoding="utf-8")

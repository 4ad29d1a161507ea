"""Training on shares: gradient descent on weights that no party sees, with data that no party sees."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn

from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.results import Result, measured
from modelkeep.encrypt.polynomial import Polynomial
from modelkeep.encrypt.shares.execution import run_plan
from modelkeep.encrypt.shares.programs import Secrets, TrainingPlan
from modelkeep.encrypt.shares.reading import read_layers
from modelkeep.encrypt.shares.ring import ShareRing


@dataclass(frozen=True, kw_only=True, eq=False)
class SharedTraining(Result, kind="shared-training"):
    """What a training on shares cost. The weights went to the owner of the model, who put them into it."""

    steps: int
    batch_size: int
    rate: float
    processes: int
    rounds: int
    opened: int
    revealed: int
    dealt: int
    sent: int | None
    run_seconds: float

    def rows(self) -> list[tuple[str, str]]:
        return [
            ("steps", f"{self.steps:,} of {self.batch_size} samples, rate {self.rate:g}"),
            ("where", "one process" if self.processes == 1 else "three parties and a dealer, a process each"),
            ("rounds", f"{self.rounds:,}"),
            ("bytes", f"{self.opened + self.revealed + self.dealt:,}, of these from the dealer {self.dealt:,}"),
            *([("bytes on the network", f"{self.sent:,}")] if self.sent is not None else []),
            ("seconds", f"{self.run_seconds:.3f}"),
        ]


def train_on_shares(
    model: Model,
    data: Data,
    *,
    steps: int,
    batch_size: int = 32,
    rate: float = 2.0**-3,
    fraction: int = 20,
    in_processes: bool = False,
    test_seed: int | None = None,
) -> SharedTraining:
    """Train the model's weights, which are its owner's secret, on data that are theirs of another.

    The loss is half the squared distance of the logits to the one-hot label, its mean over a batch. Batches are taken
    in the order of the data, again from the start after the end: the owner of the data may shuffle them before. The
    owner of the model learns the weights at the end and puts them into it; no party learns anything else.

    Args:
        model: As for `infer_on_shares`, without polynomials other than the square.
        data: Inputs and labels.
        steps: Updates.
        batch_size: Samples per update, a power of two: dividing by it costs nothing then.
        rate: The learning rate, a power of two as well.
        fraction: Fractional bits of 64.
        in_processes: Run the four roles in processes of their own over TLS; else in this one, which protects nothing.
        test_seed: For tests alone: the keys come from it, so it protects nothing either.
    """
    halvings = _halvings("batch_size", batch_size) - _halvings("rate", rate)
    if halvings < 0:
        raise bad_parameter("train_on_shares", "rate", f"at most the batch size of {batch_size}", rate)
    if steps < 1:
        raise bad_parameter("train_on_shares", "steps", "at least 1", steps)
    layers, weights = read_layers(model.module)
    _require_squares(model.module)
    warnings = () if test_seed is None else ("The keys came from a seed: this run protects nothing.",)
    with measured(test_seed or 0, model.fingerprint(), data.fingerprint(), warnings) as provenance:
        x, labels = next(data.batches(len(data)))
        y = nn.functional.one_hot(labels, len(data.classes)).to(torch.float64)
        plan = TrainingPlan(tuple(layers), batch_size, steps, halvings)
        secrets = Secrets(weights, model.preprocess(model.check_inputs(x)).flatten(1).to(torch.float64), y)
        ran = run_plan(plan, secrets, ShareRing(fraction=fraction), in_processes=in_processes, seed=test_seed)
        _put_back(model.module, ran.found)
        return SharedTraining(
            steps=steps,
            batch_size=batch_size,
            rate=rate,
            processes=4 if in_processes else 1,
            rounds=ran.traffic.rounds,
            opened=ran.traffic.opened,
            revealed=ran.traffic.revealed,
            dealt=ran.traffic.dealt,
            sent=ran.sent,
            run_seconds=ran.seconds,
            provenance=provenance(),
        )


def _halvings(name: str, value: float) -> int:
    mantissa, exponent = math.frexp(value)
    if mantissa != 0.5:
        raise bad_parameter("train_on_shares", name, "a power of two", value)
    return exponent - 1


def _require_squares(module: nn.Module) -> None:
    for name, part in module.named_modules():
        if isinstance(part, Polynomial) and [part.gain.item(), part.shift.item(), part.offset.item()] != [1, 0, 0]:
            raise InputError(f"'{name}' is a polynomial other than the square, which only inference on shares takes.")


def _put_back(module: nn.Module, found: list[torch.Tensor]) -> None:
    linear = [part for part in module.modules() if isinstance(part, nn.Linear)]
    with torch.no_grad():
        for part, weight, bias in zip(linear, found[::2], found[1::2], strict=True):
            part.weight.copy_(weight.T)
            if part.bias is not None:
                part.bias.copy_(bias)

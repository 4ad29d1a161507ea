"""Inference on shares: a model's owner and a data owner get an answer, and neither learns the other's secret."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.core.fingerprint import fingerprint
from modelkeep.core.model import Model
from modelkeep.core.results import Result, Tensor, measured
from modelkeep.encrypt.shares.execution import run_plan
from modelkeep.encrypt.shares.programs import InferencePlan, Secrets
from modelkeep.encrypt.shares.reading import read_layers
from modelkeep.encrypt.shares.ring import ShareRing


@dataclass(frozen=True, kw_only=True, eq=False)
class SharedInference(Result, kind="shared-inference"):
    """The logits `(n, classes)` that only the owner of the data learned, and what they cost.

    `opened`, `revealed` and `dealt` are bytes of payload in all; `sent` are those of all roles on the network, with
    headers and encryption, where there was one. `largest_error` is against the model in the clear.
    """

    logits: Tensor
    largest_error: float
    same_labels: int
    processes: int
    rounds: int
    opened: int
    revealed: int
    dealt: int
    sent: int | None
    run_seconds: float

    def rows(self) -> list[tuple[str, str]]:
        n = len(self.logits)
        payload = self.opened + self.revealed + self.dealt
        return [
            ("samples", f"{n:,}"),
            ("same label as in the clear", f"{self.same_labels:,} of {n:,}"),
            ("largest error of a logit", f"{self.largest_error:.2g}"),
            ("where", "one process" if self.processes == 1 else "three parties and a dealer, a process each"),
            ("rounds", str(self.rounds)),
            ("bytes per sample", f"{payload / n:,.0f}"),
            ("of these from the dealer", f"{self.dealt / n:,.0f}"),
            *([("bytes on the network per sample", f"{self.sent / n:,.0f}")] if self.sent is not None else []),
            ("seconds", f"{self.run_seconds:.4f}"),
        ]


def infer_on_shares(
    model: Model,
    x: torch.Tensor,
    *,
    batch_size: int = 512,
    fraction: int = 20,
    in_processes: bool = False,
    test_seed: int | None = None,
) -> SharedInference:
    """Ask a model about inputs that it never sees.

    Three parties compute: the owner of the model, the owner of the inputs (who alone gets the logits) and a third. A
    dealer gives them correlated randomness. The promise holds against parties that keep to the protocol: no party, and
    no two of the three, learn the other secrets, as long as the dealer tells none of them what it dealt.

    Args:
        model: An `nn.Sequential` of linear layers with ReLU or polynomials of degree 2 between them.
        x: The inputs, `(n, *input_shape)`.
        batch_size: Samples per pass.
        fraction: Fractional bits of 64.
        in_processes: Run the four roles in processes of their own over TLS; else in this one, which protects nothing.
        test_seed: For tests alone: the keys come from it, so it protects nothing either.
    """
    if batch_size < 1:
        raise bad_parameter("infer_on_shares", "batch_size", "at least 1", batch_size)
    if len(x) == 0:
        raise InputError("There is no input to ask about. Give at least one.")
    layers, weights = read_layers(model.module)
    warnings = () if test_seed is None else ("The keys came from a seed: this run protects nothing.",)
    with measured(test_seed or 0, model.fingerprint(), fingerprint({"x": x}), warnings) as provenance:
        prepared = model.preprocess(model.check_inputs(x)).flatten(1)
        sizes = [len(part) for part in torch.split(prepared, batch_size)]
        ran = run_plan(
            InferencePlan(tuple(layers), tuple(sizes)),
            Secrets(weights, prepared),
            ShareRing(fraction=fraction),
            in_processes=in_processes,
            seed=test_seed,
        )
        logits, plain = torch.cat(ran.found), model.logits(x).detach()
        return SharedInference(
            logits=logits,
            largest_error=float((logits - plain).abs().max()),
            same_labels=int((logits.argmax(dim=1) == plain.argmax(dim=1)).sum()),
            processes=4 if in_processes else 1,
            rounds=ran.traffic.rounds,
            opened=ran.traffic.opened,
            revealed=ran.traffic.revealed,
            dealt=ran.traffic.dealt,
            sent=ran.sent,
            run_seconds=ran.seconds,
            provenance=provenance(),
        )

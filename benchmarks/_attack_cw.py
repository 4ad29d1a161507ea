"""C&W in L2 against the peers: ours at its defaults, the peers with twice its steps per constant.

Each peer has the learning rate and the first constant with which it did best here. torchattacks has no search for the
constant and takes all steps at one; it comes twice: at rate 0.01 it comes nearest, at 0.1 it stops itself early and is
fastest. The fastest of all of them counts, and the best norm of all of them. ART is left out: with it, some fifteen
times slower than the others, the benchmark did not end within ten minutes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from types import ModuleType

import torch

from _measure import interleaved
from modelkeep import Data, Model
from modelkeep.attack.minimum_norm.cw import CW

CONSTANTS, STEPS, EXAMPLES = 9, 100, 64
Run = Callable[[], torch.Tensor]


def torchattacks(package: ModuleType, model: Model, data: Data, rate: float) -> Run:
    attack = package.CW(model.module, c=10, lr=rate, steps=CONSTANTS * STEPS)
    return lambda: torch.as_tensor(attack(data.x, data.y)).detach()


def foolbox(package: ModuleType, model: Model, data: Data) -> Run:
    attack = package.attacks.L2CarliniWagnerAttack(
        binary_search_steps=CONSTANTS, steps=STEPS, stepsize=0.1, initial_const=0.01
    )
    wrapped = package.PyTorchModel(model.module, bounds=(0, 1))
    return lambda: torch.as_tensor(attack(wrapped, data.x, data.y, epsilons=None)[1]).detach()


def cw_figures(model: Model, data: Data, peers: Mapping[str, ModuleType], *, seed: int) -> dict[str, float]:
    """How much longer the fastest peer takes, and our mean norm over the best peer's, where all succeed."""
    data = data.take(torch.nonzero(model.predict(data.x) == data.y).flatten()).first(EXAMPLES)
    rivals: dict[str, Run] = {"ours": lambda: CW()(model, data, seed=seed).adversarial}
    if "torchattacks" in peers:
        rivals["torchattacks"] = torchattacks(peers["torchattacks"], model, data, 0.01)
        rivals["torchattacks_fast"] = torchattacks(peers["torchattacks"], model, data, 0.1)
    if "foolbox" in peers:
        rivals["foolbox"] = foolbox(peers["foolbox"], model, data)
    found: dict[str, torch.Tensor] = {}

    def noted(name: str, run: Run) -> Callable[[], object]:
        return lambda: found.__setitem__(name, run())

    with warnings.catch_warnings(action="ignore"):
        times = interleaved({name: noted(name, run) for name, run in rivals.items()}, repeats=1, warmups=0)
    solved = {name: model.predict(moved) != data.y for name, moved in found.items()}
    common = torch.stack(list(solved.values())).all(dim=0)
    norms = {name: float((moved - data.x)[common].flatten(1).norm(dim=1).mean()) for name, moved in found.items()}
    figures = {f"cw_success_{name}": float(won.double().mean()) for name, won in solved.items()}
    figures |= {f"cw_norm_{name}": norm for name, norm in norms.items()}
    theirs = [name for name in times if name != "ours"]
    if theirs:
        figures |= {f"cw_{name}_over_ours": times[name] / times["ours"] for name in theirs}
        figures["fastest_peer_cw_over_ours"] = min(times[name] for name in theirs) / times["ours"]
        figures["cw_norm_over_best_peer"] = norms["ours"] / min(norms[name] for name in theirs)
    return figures

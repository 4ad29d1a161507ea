"""C&W in L2 against the peers, at equal settings: as many constants, and as many steps for each, for everybody.

The peers are given the learning rate and the first constant with which they came nearest here. torchattacks has no
search for the constant and takes all steps at one. ART is left out: it is some fifteen times slower than these two.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from types import ModuleType

import torch

from _measure import interleaved
from modelkeep import Data, Model
from modelkeep.attack.nearest.cw import cw

CONSTANTS, STEPS, EXAMPLES = 9, 100, 64
Run = Callable[[], torch.Tensor]


def torchattacks(package: ModuleType, model: Model, data: Data) -> Run:
    attack = package.CW(model.module, c=10, lr=0.01, steps=CONSTANTS * STEPS)
    return lambda: torch.as_tensor(attack(data.x, data.y)).detach()


def foolbox(package: ModuleType, model: Model, data: Data) -> Run:
    attack = package.attacks.L2CarliniWagnerAttack(
        binary_search_steps=CONSTANTS, steps=STEPS, stepsize=0.1, initial_const=0.01
    )
    wrapped = package.PyTorchModel(model.module, bounds=(0, 1))
    return lambda: torch.as_tensor(attack(wrapped, data.x, data.y, epsilons=None)[1]).detach()


PEERS: dict[str, Callable[[ModuleType, Model, Data], Run]] = {"torchattacks": torchattacks, "foolbox": foolbox}


def cw_rivals(model: Model, data: Data, peers: Mapping[str, ModuleType], seed: int) -> dict[str, Run]:
    """Ours and those of the peers that were found, each as a function that gives the attacked inputs."""
    rivals: dict[str, Run] = {
        "ours": lambda: cw(model, data, steps=STEPS, binary_search_steps=CONSTANTS, seed=seed).adversarial
    }
    return rivals | {name: make(peers[name], model, data) for name, make in PEERS.items() if name in peers}


def cw_figures(
    model: Model, data: Data, peers: Mapping[str, ModuleType], *, repeats: int, seed: int
) -> dict[str, float]:
    """How much longer the fastest peer takes, and our mean norm over the best peer's, where all succeed."""
    data = data.take(torch.nonzero(model.predict(data.x) == data.y).flatten()).first(EXAMPLES)
    rivals = cw_rivals(model, data, peers, seed)
    found: dict[str, torch.Tensor] = {}

    def kept(name: str) -> Callable[[], object]:
        return lambda: found.__setitem__(name, rivals[name]())

    with warnings.catch_warnings(action="ignore"):
        times = interleaved({name: kept(name) for name in rivals}, repeats=repeats, warmups=0)
    solved = {name: model.predict(moved) != data.y for name, moved in found.items()}
    common = torch.stack(list(solved.values())).all(dim=0)
    norms = {name: float((moved - data.x)[common].flatten(1).norm(dim=1).mean()) for name, moved in found.items()}
    figures = {f"cw_success_{name}": float(won.double().mean()) for name, won in solved.items()}
    figures |= {f"cw_norm_{name}": norm for name, norm in norms.items()}
    theirs = [name for name in rivals if name != "ours"]
    if theirs:
        figures |= {f"cw_{name}_over_ours": times[name] / times["ours"] for name in theirs}
        figures["fastest_peer_cw_over_ours"] = min(times[name] for name in theirs) / times["ours"]
        figures["cw_norm_over_best_peer"] = norms["ours"] / min(norms[name] for name in theirs)
    return figures

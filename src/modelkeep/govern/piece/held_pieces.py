"""HeldPieces: what one party holds of the model (its pieces, its optimizer's state) and how it changes by an update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from math import isfinite
from typing import Any

import torch
from torch import nn

from modelkeep.core.errors import GovernError, WireError
from modelkeep.core.fingerprint import fingerprint
from modelkeep.core.slices.pieces import Piece
from modelkeep.govern.agreement.agreement import Agreement
from modelkeep.govern.piece.files import fill
from modelkeep.govern.piece.payload import Spec, specs
from modelkeep.training.batches import Batches, derive_seed
from modelkeep.training.checkpoint import Snapshot
from modelkeep.training.objectives import Objective, OwnGradients, Stateful, cross_entropy, gradients_of
from modelkeep.training.schedules import Step, at


class HeldPieces:
    """One party's part of the model under an agreement. `step` counts the updates that it has had."""

    def __init__(
        self, agreement: Agreement, party: str, tensors: Mapping[str, torch.Tensor], device: str = "cpu"
    ) -> None:
        self.agreement, self.party, self.device = agreement, party, torch.device(device)
        whole = agreement.build()
        whole.module.to(self.device)
        every = whole.pieces(agreement.cuts)
        self.expected = {training: _expect_crossings(every, whole.probe(), training) for training in (False, True)}
        self.classes, self.bounds, self.dtype = whole.classes, whole.bounds, whole.dtype
        self.pieces = {
            number: piece
            for number, (piece, holder) in enumerate(zip(every, agreement.holders, strict=True))
            if holder == party
        }
        fill(self.tensors(), tensors, party)
        self.parameters: list[nn.Parameter] = [p for piece in self.pieces.values() for p in piece.parameters.values()]
        self.optimizer = agreement.recipe.optimizer.build(self.parameters) if self.parameters else None
        self.seeds = {purpose: derive_seed(agreement.seed, purpose, 0) for purpose in ("modules", "objective")}
        self.batches = Batches(agreement.data.rows, agreement.recipe, agreement.seed)
        self.total = agreement.recipe.total(self.batches.per_epoch)
        self.objective = _objective(agreement.objective)
        self.differentiate = gradients_of(self.objective)
        self.step = 0
        self._training: bool | None = None

    def run(self, numbers: Sequence[int], values: tuple[Any, ...], *, training: bool) -> tuple[Any, ...]:
        """The values after the pieces with these numbers, which this party holds."""
        if training is not self._training:
            for piece in self.pieces.values():
                piece.train(training)
            self._training = training
        for number in numbers:
            values = self.pieces[number](values, training=training)
        return values

    def forget_gradients(self) -> None:
        """Begin a pass, or end one that failed."""
        for parameter in self.parameters:
            parameter.grad = None

    def require_finite(self, where: str) -> None:
        """Refuse an update, or statistics of batch norm, with NaN or infinity: numbers that came may be too large."""
        found = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        found += [b for piece in self.pieces.values() for b in piece.buffers.values() if b.is_floating_point()]
        # A norm is one pass over the memory, but may overflow by itself. `get_total_norm` takes twice as long.
        norms = [torch.linalg.vector_norm(tensor) for tensor in found]
        finite = not norms or isfinite(torch.stack(norms).sum().item())
        if not finite and not all(tensor.isfinite().all() for tensor in found):
            raise WireError(
                f"{where} would make NaN or infinity of weights that '{self.party}' holds. Nothing was updated. Lower "
                "the learning rate, and look at the inputs."
            )

    def update(self) -> None:
        """Take the step that the gradients say."""
        if self.optimizer is not None:
            rate = at(self.agreement.recipe.learning_rate, Step(self.step, self.total, self.batches.per_epoch))
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            self.optimizer.step()
        self.forget_gradients()
        self.step += 1

    def copy_buffers(self) -> dict[str, torch.Tensor]:
        """The buffers, such as the statistics of batch norm, which a training pass changes before its update."""
        return {
            name: tensor.detach().clone() for piece in self.pieces.values() for name, tensor in piece.buffers.items()
        }

    def restore_buffers(self, kept: Mapping[str, torch.Tensor]) -> None:
        """Take the buffers back."""
        tensors = self.tensors()
        for name, tensor in kept.items():
            tensors[name].copy_(tensor)

    def tensors(self) -> dict[str, torch.Tensor]:
        """The parameters and buffers that the party holds, by their names in the network."""
        return {
            name: tensor.detach()
            for piece in self.pieces.values()
            for name, tensor in (*piece.parameters.items(), *piece.buffers.items())
        }

    def fingerprint(self) -> str:
        """By which the party's part is known again."""
        return fingerprint(self.tensors(), self.party)

    def snapshot(self) -> Snapshot:
        """All that the rest of the training depends on, here."""
        state = {} if self.optimizer is None else self.optimizer.state_dict()["state"]
        flat = {f"optimizer/{i}/{name}": value for i, values in state.items() for name, value in values.items()}
        if isinstance(self.objective, Stateful):
            flat |= {f"objective/{name}": value for name, value in self.objective.state_dict().items()}
        tensors = {f"piece/{name}": tensor for name, tensor in self.tensors().items()}
        tensors |= {name: value for name, value in flat.items() if isinstance(value, torch.Tensor)}
        others = {name: value for name, value in flat.items() if not isinstance(value, torch.Tensor)}
        return Snapshot(tensors, {"step": self.step, "others": others}, self.identity)

    @property
    def identity(self) -> dict[str, Any]:
        """Whose state a checkpoint is."""
        return {"agreement": self.agreement.fingerprint, "party": self.party}

    def restore(self, found: Snapshot) -> None:
        """Take over the state of a snapshot."""
        if found.identity != self.identity:
            raise GovernError(f"The checkpoint is of {found.identity}; this party is {self.identity}.")
        fill(self.tensors(), found.part("piece/"), self.party)
        kept: dict[str, dict[str, Any]] = {}
        for full, value in {**found.tensors, **found.values["others"]}.items():
            part, _, name = full.rpartition("/")
            kept.setdefault(part, {})[name] = value
        if self.optimizer is not None:
            state = {int(p.split("/")[1]): values for p, values in kept.items() if p.startswith("optimizer/")}
            self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": state})
        if isinstance(self.objective, Stateful):
            self.objective.load_state_dict(kept.get("objective", {}))
        self.forget_gradients()
        self.step = found.values["step"]


def _objective(name: str) -> Objective:
    """What a training makes small, by the name that the agreement gives it."""
    if name == "cross_entropy":
        return cross_entropy
    module, _, function = name.partition(":")
    try:
        found = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise GovernError(f"The agreement's objective '{name}' cannot be imported: {error}.") from error
    if isinstance(found, OwnGradients):
        raise GovernError(f"The objective '{name}' computes its own gradients, which needs the whole network.")
    objective: Objective = found() if isinstance(found, type) else found
    return objective


def _expect_crossings(every: Sequence[Piece], probe: torch.Tensor, training: bool) -> tuple[tuple[Spec, ...], ...]:
    """What may enter each piece, and what may leave the last one."""
    seen: list[list[tuple[Any, ...]]] = []
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        for x in (probe, torch.cat((probe, probe[:1]))):
            values: tuple[Any, ...] = (x,)
            seen.append([values])
            for piece in every:
                piece.train(False)  # no statistics move, whatever the program does
                values = piece(values, training=training)
                seen[-1].append(values)
    return tuple(specs(two, three) for two, three in zip(*seen, strict=True))

"""Proxy: a network of our own that learns a target's answers (Saha2020, eq. 2.7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch
from torch import nn
from torch.nn.functional import one_hot

from modelkeep.core.access import Labels, Scores
from modelkeep.core.card import Preprocessing
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.formats.factory import OURS
from modelkeep.core.model import Model
from modelkeep.core.nest import Nest
from modelkeep.core.results import Estimate
from modelkeep.training import Recipe, SoftAnswers, fit
from modelkeep.zoo import architectures

Architecture = Callable[[Sequence[int], int], nn.Module]
"""From an input's shape and the number of classes to a network, as in `modelkeep.zoo.architectures`."""
RECIPE = Recipe(epochs=20, batch_size=64, learning_rate=2e-3)


class Interface(Protocol):
    """What is public about a target: what it takes, and what it can answer."""

    @property
    def input_shape(self) -> tuple[int, ...]: ...
    @property
    def classes(self) -> tuple[str, ...]: ...
    @property
    def bounds(self) -> tuple[float, float] | None: ...
    @property
    def dtype(self) -> torch.dtype: ...
    @property
    def device(self) -> torch.device: ...


@dataclass(frozen=True)
class Proxy:
    """The trained network, how often it answers as the target does, and how often a constant answer would."""

    model: Model
    agreement: Estimate
    by_chance: float

    def notes(self) -> tuple[str, ...]:
        """Why a failed transfer says little about the target; empty where the proxy is a good one."""
        if self.by_chance == 1:
            return ("the target gave one and the same answer to every held-out question: ask it about other inputs",)
        if self.agreement.low <= self.by_chance:
            return (
                f"the proxy is not a copy of the target: it agrees on {self.agreement.value:.0%} of the held-out "
                f"questions, and always giving the most frequent answer on {self.by_chance:.0%}",
            )
        if self.agreement.value < 0.8:
            return (f"the proxy is a poor copy of the target: it agrees on only {self.agreement.value:.0%}",)
        return ()


def ask(view: Labels, x: torch.Tensor) -> torch.Tensor:
    """The target's answers `(n, classes)` on the CPU: probabilities where the view shows them, else its labels."""
    if isinstance(view, Scores):
        return view.probs(x).cpu()
    return one_hot(view.labels(x), len(view.classes)).float().cpu()


def train_proxy(
    view: Labels,
    questions: torch.Tensor,
    answers: torch.Tensor,
    *,
    architecture: Architecture | None = None,
    recipe: Recipe = RECIPE,
    seed: int,
) -> Proxy:
    """Train a network on the target's `answers: (n, classes)` to `questions: (n, ...)`; a tenth is held out.

    The view tells only what is public about the target: shape, classes and bounds. Without an `architecture`, a small
    CNN for images and a dense network for anything else.
    """
    if len(questions) < 2:
        raise InputError(f"A proxy needs at least 2 questions, one of them to be held out. Got {len(questions)}.")
    labels = answers.argmax(dim=1)
    order = torch.randperm(len(questions), generator=torch.Generator().manual_seed(seed))
    held_out, learnt = order.tensor_split([max(1, len(order) // 10)])
    model = new_network(view, questions[learnt], architecture, seed)
    data = Data(questions[learnt], labels[learnt], view.classes, name="the target's answers", bounds=view.bounds)
    fit(model, data, SoftAnswers(answers[learnt], "the target", data.fingerprint()), recipe, seed=seed)
    return judge_proxy(model, questions[held_out], labels[held_out])


def judge_proxy(model: Model, questions: torch.Tensor, labels: torch.Tensor) -> Proxy:
    """A network as a proxy, judged by how it answers questions that the target answered with `labels`."""
    agreed = int((Scores(model).labels(questions).cpu() == labels).sum())
    return Proxy(model, Estimate.rate(agreed, len(labels)), float(labels.bincount().max()) / len(labels))


def _default_architecture(input_shape: Sequence[int]) -> Architecture:
    """A small CNN for images of 4×4 pixels and more, two hidden layers for anything else."""
    if len(input_shape) == 3 and min(input_shape[1:]) >= 4:
        return architectures.small_cnn
    return partial(architectures.dense, hidden=[64, 64])


def new_network(
    target: Interface, x: torch.Tensor, architecture: Architecture | None, seed: int, *, nest: Nest | None = None
) -> Model:
    """A new network with the target's interface, normalised by what it will learn from.

    One of `modelkeep.zoo.architectures`, settings bound by `functools.partial`, can be saved when it is trained. `nest`
    says what `x` is made of, where it is known: a remote target tells only how many numbers it takes.
    """
    known = getattr(target, "nest", None) or nest
    if architecture is None and isinstance(known, Nest) and known.tokens is not None:
        return _reader(target, known, seed)
    architecture = architecture or _default_architecture(target.input_shape)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        module = architecture(target.input_shape, len(target.classes))
    by_channel = x.transpose(0, 1).flatten(1)
    mean, std = by_channel.mean(dim=1), by_channel.std(dim=1)
    std = torch.where(std > 0, std, torch.ones_like(std))
    return Model(
        module.to(target.dtype),
        input_shape=target.input_shape,
        classes=target.classes,
        preprocessing=Preprocessing(tuple(mean.tolist()), tuple(std.tolist())),
        bounds=target.bounds,
        device=target.device,
        **_how_to_build(architecture, target),
    )


def _reader(target: Interface, nest: Nest, seed: int) -> Model:
    """An LSTM over the words of a target that takes token ids."""
    assert nest.tokens is not None
    if set(nest.names) != {"input_ids", "attention_mask"}:
        raise InputError(
            f"The LSTM that copies a text model takes input_ids and attention_mask. The target takes "
            f"{', '.join(nest.names)}. Give an architecture of your own."
        )
    arguments = {"vocabulary": nest.tokens.size or 0, "classes": len(target.classes)}
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        module = architectures.text_lstm(**arguments)
    return Model(
        module,
        inputs=nest,
        classes=target.classes,
        architecture=f"{OURS}:text_lstm",
        arguments=arguments,
        device=target.device,
    )


def _how_to_build(architecture: Architecture, target: Interface) -> dict[str, Any]:
    """What a card says of an architecture of ours; nothing of any other."""
    bound = architecture.keywords if isinstance(architecture, partial) else {}
    factory = architecture.func if isinstance(architecture, partial) else architecture
    name = getattr(factory, "__name__", "")
    if name not in architectures.names() or factory is not getattr(architectures, name):
        return {}
    arguments = {"input_shape": list(target.input_shape), "classes": len(target.classes), **bound}
    return {"architecture": f"{OURS}:{name}", "arguments": arguments}

"""Internal influence: the mean gradient of a quantity at a slice, over a distribution (Leino2022, section 3.2.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

from modelkeep.core import progress
from modelkeep.core.data import Data
from modelkeep.core.embedding import find_embedding
from modelkeep.core.errors import InputError, ModelError
from modelkeep.core.examples import Stored, in_parts
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.results import measured
from modelkeep.core.slices import Cut, Slice
from modelkeep.explain.distributions import DataSet, Distribution, Path, Point
from modelkeep.explain.orientation import oriented_slice
from modelkeep.explain.quantities import PredictedScore, Quantity, Score
from modelkeep.explain.real_batch import check_real_batch
from modelkeep.explain.result import Explained

Found = dict[str, torch.Tensor]
"""What was found for some points, by the names of `Explained`'s fields."""


@declare("measurement", "influence", access="weights", paper="Leino2022, definition 3.2")
class Influence:
    """How strongly each unit at a slice moves a quantity, for each example.

    Each sample of the distribution costs one forward and one backward pass through the part of the network above
    the slice, and is added to a running sum: memory does not grow with their number. Tensors that pass around the
    slice are held fixed.

    >>> layer = torch.nn.Linear(2, 2)
    >>> _ = layer.load_state_dict({"weight": torch.tensor([[1.0, 2.0], [3.0, 4.0]]), "bias": torch.zeros(2)})
    >>> model = Model(layer, input_shape=(2,), classes=("cat", "dog"))
    >>> from modelkeep.explain import ClassScore
    >>> Influence(quantity=ClassScore("dog"))(model, torch.zeros(1, 2)).influence
    tensor([[3., 4.]])
    """

    slice: str = setting("Where to measure: 'input', or a name from `model.slices()`.", default="input")
    call: int | None = setting("Which call of a module that is called more than once.", default=None)
    quantity: Quantity = setting("What to explain.", default=PredictedScore())
    distribution: Distribution = setting("Over which points.", default=Point())
    batch_size: int = setting("Examples that are run at once.", default=64, at_least=1)

    def __call__(self, model: Model, data: Data | torch.Tensor, *, seed: int = 0) -> Explained:
        """Explain the points `x: (n, *input_shape)`. Labels are used only by `DataSet(of=…)`."""
        if isinstance(data, Data):
            model.require_fit(data)
        if isinstance(self.distribution, DataSet) and self.distribution.of is not None:
            data = _of_class(model, data, self.distribution.of)
        if self.slice == "input" and model.nest is not None and all(leaf.kind != "real" for leaf in model.nest.leaves):
            raise InputError(
                "Token ids, masks and whole numbers have no gradient. Explain a text at its embedding: "
                f"Influence(slice={find_embedding(model)!r})."
            )
        x = data.x if isinstance(data, Data) else data
        if not isinstance(x, Stored):  # what is stored is checked part by part
            x = model.check_inputs(x)
        fingerprint = data.fingerprint() if isinstance(data, Data) else None
        score = self.quantity.score(model)
        with measured(seed, model.fingerprint(), fingerprint) as provenance, model.frozen(seed):
            cutting = oriented_slice(model, self.slice, call=self.call, until=self.quantity.place, skip="hold")
            with progress.task(f"Influence at {self.slice}", len(x) * self.distribution.count) as task:
                parts = (
                    _explain(model, cutting, model.check_inputs(part), score, self.distribution, seed, task)
                    for part in in_parts(x, self.batch_size)
                )
                together = isinstance(self.distribution, DataSet)
                found = _average(parts, len(x), len(model.classes)) if together else _join(parts)
            return Explained(
                provenance=provenance(),
                slice=self.slice,
                call=self.call,
                quantity=str(self.quantity),
                distribution=str(self.distribution),
                examples=len(x),
                classes=model.classes,
                features=data.features if isinstance(data, Data) else None,
                bounds=model.bounds,
                inputs=found["inputs"],
                activation=found["activation"],
                predicted=found["predicted"],
                values=found["values"],
                influence=found["influence"],
                attribution=found.get("attribution"),
                gap=found.get("gap"),
                pieces=_pieces(data) if isinstance(data, Data) and not together else (),
                tokens=cutting.orientation.tokens,
                channels_known=cutting.orientation.known,
            )


def gradient(
    cutting: Slice, cut: Cut, score: Callable[[torch.Tensor], torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradient of a score of `g`'s output with respect to the value at the cut, and that output."""
    with torch.enable_grad():
        z = cut.value.detach().requires_grad_()
        output = cutting.g(cut.replace(z))
        scored = score(output).sum()
        if not scored.requires_grad:
            raise InputError("The quantity does not depend on the slice through differentiable operations.")
        (slope,) = torch.autograd.grad(scored, z)
    return slope, output.detach()


def _explain(
    model: Model,
    cutting: Slice,
    x: torch.Tensor,
    score: Score,
    distribution: Distribution,
    seed: int,
    task: progress.Task,
) -> Found:
    """The explanation of one batch of points."""
    check_real_batch(model, cutting, x)
    with torch.no_grad():
        cut = cutting.h(x)
        known = None if cutting.until is None else _finite(model.forward(x)).argmax(dim=1)
    centre = x if distribution.at == "input" else cut.value

    def predict(output: torch.Tensor) -> torch.Tensor:
        return known if known is not None else output.argmax(dim=1)

    def scored(output: torch.Tensor, predicted: torch.Tensor) -> torch.Tensor:
        values = score(output, predicted)
        if values.shape != predicted.shape:
            raise InputError(
                f"A quantity gives one number per example, {tuple(predicted.shape)}. Got {tuple(values.shape)}."
            )
        return values

    def cut_at(sample: torch.Tensor) -> Cut:
        return cutting.h(sample) if distribution.at == "input" else cut.replace(sample)

    walk: _Walk | None = None
    if isinstance(distribution, Point):
        # One pass gives the prediction, the quantity and its gradient: the floor.
        total, output = gradient(cutting, cut, lambda output: scored(output, predict(output)))
        predicted = predict(_finite(output))
        task.advance(len(x))
    else:
        with torch.no_grad():
            output = _finite(cutting.g(cut))
        predicted = predict(output)
        # Sums of half-precision numbers would lose the small ones.
        total = torch.zeros_like(cut.value, dtype=torch.promote_types(cut.value.dtype, torch.float32))
        if isinstance(distribution, Path):
            walk = _Walk(distribution, centre, cutting)
        for sample in distribution.samples(centre, seed):
            with torch.no_grad():
                here = cut_at(sample)
            slope, _ = gradient(cutting, here, lambda output: scored(output, predicted))
            total += slope
            if walk is not None:
                walk.step(slope)
            task.advance(len(x))
        total /= distribution.count
    if not _all_finite(total):
        raise ModelError("The gradient of the quantity is NaN or infinite. Is the quantity differentiable there?")
    values = scored(output, predicted)
    found = {"inputs": x, "activation": cut.value, "predicted": predicted, "values": values, "influence": total}
    origin = distribution.origin(centre)
    if origin is not None:
        with torch.no_grad():
            start = cut_at(origin)
            change = values - scored(cutting.g(start), predicted)
        # Attribution is influence times the distance to the baseline (section 3.1). It is efficient where it
        # sums to the change of the quantity; the gap is what is missing.
        found["attribution"] = total * (cut.value - start.value) if walk is None else walk.flow
        found["gap"] = found["attribution"].flatten(1).sum(dim=1) - change
    # Off the device batch by batch, so that it holds one batch, whatever the number of examples.
    return {name: _store(tensor) for name, tensor in found.items()}


def _finite(output: torch.Tensor) -> torch.Tensor:
    if not _all_finite(output):
        raise ModelError("The network gives NaN or infinite values for finite inputs. Are its weights damaged?")
    return output


def _all_finite(tensor: torch.Tensor) -> bool:
    """A finite sum has only finite terms; where it is not finite (it may overflow), each term is looked at."""
    return bool(torch.isfinite(tensor.sum())) or bool(torch.isfinite(tensor).all())


class _Walk:
    """The way of the value at the slice along a path, and what flowed through it so far."""

    def __init__(self, path: Path, centre: torch.Tensor, cutting: Slice) -> None:
        self._ends, self._cutting = path.ends(centre), cutting
        self._here = self._value(path.origin(centre))
        self.flow = torch.zeros_like(self._here, dtype=torch.promote_types(self._here.dtype, torch.float32))

    def step(self, slope: torch.Tensor) -> None:
        ahead = self._value(next(self._ends))
        self.flow += slope * (ahead - self._here)
        self._here = ahead

    def _value(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return self._cutting.h(x).value


def _store(tensor: torch.Tensor) -> torch.Tensor:
    """On the CPU, and in a floating type that numpy and JSON know."""
    return tensor.cpu() if tensor.dtype in (torch.float32, torch.float64, torch.int64) else tensor.cpu().float()


def _join(parts: Iterable[Found]) -> Found:
    """The explanations of all batches, example by example."""
    first, *others = parts
    return {name: torch.cat([first[name], *(part[name] for part in others)]) for name in first} if others else first


def _average(parts: Iterable[Found], n: int, classes: int) -> Found:
    """One explanation: the mean over all examples, and the class that most of them are predicted to be."""
    sums: Found = {}
    counts = torch.zeros(classes, dtype=torch.int64)
    for part in parts:
        counts += part.pop("predicted").bincount(minlength=classes)
        for name, tensor in part.items():
            total = tensor.sum(dim=0, keepdim=True, dtype=torch.float64)
            sums[name] = sums[name] + total if name in sums else total
    return {name: (total / n).float() for name, total in sums.items()} | {"predicted": counts.argmax()[None]}


def _of_class(model: Model, data: Data | torch.Tensor, name: str) -> Data:
    if not isinstance(data, Data):
        raise InputError(f"The examples of '{name}' cannot be told without labels. Give Data instead of a tensor.")
    chosen = data.take(torch.nonzero(data.y == model.class_index(name)).flatten())
    if len(chosen) == 0:
        raise InputError(f"'{data.name}' has no example of '{name}'.")
    return chosen


def _pieces(data: Data) -> tuple[tuple[str, ...], ...]:
    """The pieces of words of each text, "" for special tokens; nothing where the data has no tokenizer."""
    if data.tokenizer is None or data.nest is None or data.nest.tokens is None:
        return ()
    tokenizer, columns = data.tokenizer, data.nest.columns(data.nest.tokens.name)
    return tuple(
        tuple(
            "" if number in tokenizer.special else piece
            for number, piece in zip(row, tokenizer.decode(row), strict=True)
        )
        for row in data.rows(range(len(data)))[:, columns].long().tolist()
    )

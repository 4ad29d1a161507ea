"""Internal influence: the expected gradient of a quantity at a slice, over a distribution (thesis 002, 3.2.4)."""

from __future__ import annotations

import torch

from modelkeep import progress
from modelkeep.data import Data
from modelkeep.errors import InputError, ModelError, bad_parameter
from modelkeep.explain.distributions import Distribution, Point
from modelkeep.explain.explained import Explained
from modelkeep.explain.quantities import PredictedScore, Quantity, Score
from modelkeep.model import Model
from modelkeep.results import measured
from modelkeep.slices import Cut, Slice


def influence(
    model: Model,
    data: Data | torch.Tensor,
    *,
    slice: str = "input",
    call: int | None = None,
    quantity: Quantity = PredictedScore(),  # noqa: B008 - frozen, and the documented default
    distribution: Distribution = Point(),  # noqa: B008
    batch_size: int = 64,
    seed: int,
) -> Explained:
    """How strongly each unit at the slice moves the quantity (definition 3.2), for each example.

    Each sample of the distribution costs one forward and one backward pass through the part of the network above
    the slice, and is added to a running sum: memory does not grow with their number. Tensors that pass around the
    slice are held fixed.

    Args:
        model: The model; it is left as it was.
        data: The points to explain, `x: (n, *input_shape)`. Labels are not used.
        slice: Where to measure: "input", or a name from `model.slices()`; `call` says which call of a module that
            is called more than once.
        quantity: What to explain.
        distribution: Over which points. A `Line` has a baseline, and so gives attribution too.
        batch_size: Examples that are run at once.
        seed: For distributions that draw.

    >>> layer = torch.nn.Linear(2, 2)
    >>> _ = layer.load_state_dict({"weight": torch.tensor([[1.0, 2.0], [3.0, 4.0]]), "bias": torch.zeros(2)})
    >>> model = Model(layer, input_shape=(2,), classes=("cat", "dog"))
    >>> from modelkeep.explain import ClassScore
    >>> influence(model, torch.zeros(1, 2), quantity=ClassScore("dog"), seed=0).influence
    tensor([[3., 4.]])
    """
    if batch_size < 1:
        raise bad_parameter("influence", "batch_size", "at least 1", batch_size)
    if isinstance(data, Data):
        model.require_fit(data)
    x = model.checked(data.x if isinstance(data, Data) else data)
    fingerprint = data.fingerprint() if isinstance(data, Data) else None
    score = quantity.score(model)
    with measured(seed, model.fingerprint(), fingerprint) as provenance, model.frozen(seed):
        cutting = model.slice(slice, call=call, skip="hold")
        with progress.task(f"Influence at {slice}", len(x) * distribution.count) as task:
            parts = [_explain(cutting, part, score, distribution, seed, task) for part in torch.split(x, batch_size)]
        found = {name: torch.cat([part[name] for part in parts]).cpu() for name in parts[0]}
        return Explained(
            provenance=provenance(),
            slice=slice,
            call=call,
            quantity=str(quantity),
            distribution=str(distribution),
            classes=model.classes,
            features=data.features if isinstance(data, Data) else None,
            bounds=model.bounds,
            inputs=x.cpu(),
            predicted=found["predicted"],
            values=found["values"],
            influence=found["influence"],
            attribution=found.get("attribution"),
            gap=found.get("gap"),
        )


def _explain(
    cutting: Slice, x: torch.Tensor, score: Score, distribution: Distribution, seed: int, task: progress.Task
) -> dict[str, torch.Tensor]:
    """The explanation of one batch of points, by the names of `Explained`'s fields."""
    with torch.no_grad():
        cut = cutting.h(x)
        logits = cutting.g(cut)
        predicted = logits.argmax(dim=1)
        values = _scored(score, logits, predicted)

    def cut_at(sample: torch.Tensor) -> Cut:
        return cutting.h(sample) if distribution.at == "input" else cut.replace(sample)

    centre = x if distribution.at == "input" else cut.value
    total = torch.zeros_like(cut.value)
    for sample in distribution.samples(centre, seed):
        with torch.no_grad():
            here = cut_at(sample)
        with torch.enable_grad():
            z = here.value.detach().requires_grad_()
            quantity = _scored(score, cutting.g(here.replace(z)), predicted).sum()
            if not quantity.requires_grad:
                raise InputError("The quantity does not depend on the slice through differentiable operations.")
            (gradient,) = torch.autograd.grad(quantity, z)
        total += gradient
        task.advance(len(x))
    found = {"predicted": predicted, "values": values, "influence": total / distribution.count}
    if not torch.isfinite(found["influence"]).all():
        raise ModelError("The gradient of the quantity is NaN or infinite. Is the quantity differentiable there?")
    origin = distribution.origin(centre)
    if origin is not None:
        with torch.no_grad():
            start = cut_at(origin)
            change = values - _scored(score, cutting.g(start), predicted)
        # Attribution is influence times the distance to the baseline (section 3.1). It is efficient where it
        # sums to the change of the quantity; the gap is what is missing.
        found["attribution"] = found["influence"] * (cut.value - start.value)
        found["gap"] = found["attribution"].flatten(1).sum(dim=1) - change
    return found


def _scored(score: Score, logits: torch.Tensor, predicted: torch.Tensor) -> torch.Tensor:
    values = score(logits, predicted)
    if values.shape != predicted.shape:
        raise InputError(
            f"A quantity gives one number per example, {tuple(predicted.shape)}. Got {tuple(values.shape)}."
        )
    return values

"""From influence to meaning, the units that matter most and what each of them stands for.

Leino2022, section 3.3: find the influential internal features, then interpret each by what influences it, by its
exemplars, by an input that is optimised for it, and by concepts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import torch

from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, Result, measured
from modelkeep.explain.distributions import Line
from modelkeep.explain.influence import Influence
from modelkeep.explain.meaning.concept_sensitivity import TCAV, unit_attribution, unit_influence
from modelkeep.explain.meaning.concepts import Concept
from modelkeep.explain.meaning.exemplars import Exemplars, FindExemplars, check_units, is_map
from modelkeep.explain.meaning.search_space import search_space
from modelkeep.explain.meaning.unit_sheet import Mover, UnitSheet
from modelkeep.explain.meaning.visualisation import Visualise
from modelkeep.explain.orientation import oriented_slice
from modelkeep.explain.quantities import Channel, OfInner, PredictedScore, Quantity, Unit

_LINE = 16  # points on the line from the mean image to an exemplar
SCALE = 1024  # examples that an optimised input is compared with
_MOVERS = 6  # features of a table that are named as moving a unit


R = TypeVar("R", bound=Result)


@declare("measurement", "units", access="weights", paper="Leino2022, section 3.3")
class ExplainUnits:
    """The units at a slice that account for most of a quantity, and what each of them stands for, on one sheet.

    Of a feature map the channels are interpreted, and else single units.
    """

    slice: str = setting("A name from `model.slices()`.")
    call: int | None = setting("Which call of a module that is called more than once.", default=None)
    quantity: Quantity = setting("What the units influence.", default=PredictedScore())
    units: int | Sequence[int] = setting("How many, those of the largest attribution first, or which.", default=3)
    exemplars_from: Data | None = setting("Where to look for exemplars; else the data themselves.", default=None)
    concepts: Sequence[Concept] = setting("What `learn_concept` returned for this slice.", default=())
    count: int = setting("Exemplars per unit.", default=4, at_least=1)
    steps: int = setting("Steps of the search for an input for each unit.", default=128, at_least=1)
    batch_size: int = setting("Examples that are run at once.", default=64, at_least=1)

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> UnitSheet:
        """Explain on examples whose quantity is of interest; the influence of a unit is the mean over them."""
        if isinstance(self.units, int) and self.units < 1:
            raise bad_parameter("ExplainUnits", "units", "a number of units from 1 on, or a list of units", self.units)
        for c in self.concepts:
            if (c.slice, c.call) != (self.slice, self.call):
                raise InputError(
                    f"The concept '{c.name}' was learned at '{c.slice}', but these are units of '{self.slice}'. "
                    f"Learn it with learn_concept(..., slice='{self.slice}')."
                )
        source = self.exemplars_from if self.exemplars_from is not None else data
        with measured(seed, model.fingerprint(), data.fingerprint()) as provenance:
            influences = unit_influence(model, data, self.slice, self.call, self.quantity, self.batch_size, seed)
            shape = _shape_at(model, self.slice, self.call, seed)
            if isinstance(self.units, int):
                share = unit_attribution(model, data, self.slice, self.call, self.quantity, self.batch_size, seed)
                order = share.abs().mean(dim=0).argsort(descending=True, stable=True)
                chosen = tuple(order[: self.units].tolist())
            else:
                chosen = check_units("ExplainUnits", self.units, self.slice, shape)
            wanted = [_quantity_of(self.slice, self.call, unit, shape) for unit in chosen]
            find = FindExemplars(
                slice=self.slice, call=self.call, units=chosen, count=self.count, batch_size=self.batch_size
            )
            best = find(model, source, seed=seed)
            image = len(model.input_shape) == 3
            space = search_space(model, source, fourier=False)
            heat = [_heat(model, best, i, shape, space.centre, seed) for i in range(len(chosen)) if image]
            movers = [
                _movers(model, data, unit, space.spread.cpu(), self.batch_size, seed) for unit in wanted if not image
            ]
            optimised = []
            for unit, indices in zip(wanted, best.index, strict=True):
                # The exemplars and a sample of the rest: all of a large data set need not be run once more per unit.
                rest = torch.randperm(len(source), generator=torch.Generator().manual_seed(seed))[:SCALE]
                scale = source.take(sorted({*indices.tolist(), *rest.tolist()}))
                search = Visualise(quantity=unit, steps=self.steps, batch_size=self.batch_size)
                optimised.append(search(model, scale, seed=seed))
            sensitivity = None
            if self.concepts:
                test = TCAV(concepts=self.concepts, quantity=self.quantity, batch_size=self.batch_size)
                sensitivity = test(model, data, seed=seed)
            return UnitSheet(
                provenance=provenance(),
                quantity=str(self.quantity),
                examples=len(data),
                influence=tuple(Estimate.bootstrap(influences[:, unit].numpy(), seed) for unit in chosen),
                exemplars=_remove_time(best),
                heat=torch.stack(heat) if image else None,
                standout=None if image else space.deviation(best.inputs.to(model.device)).flatten(2).cpu(),
                movers=tuple(movers),
                optimised=tuple(_remove_time(found) for found in optimised),
                concepts=tuple(_remove_time(c) for c in self.concepts),
                sensitivity=_remove_time(sensitivity) if sensitivity is not None else None,
            )


def _remove_time(part: R) -> R:
    """A part of the sheet without its own time, so that the same seed gives the same sheet; the whole is timed."""
    return replace(part, provenance=replace(part.provenance, seconds=0.0))


def _shape_at(model: Model, slice: str, call: int | None, seed: int) -> tuple[int, ...]:
    with model.frozen(seed), torch.no_grad():
        return tuple(oriented_slice(model, slice, call=call).h(model.probe()).value.shape[1:])


def _quantity_of(slice: str, call: int | None, unit: int, shape: tuple[int, ...]) -> Channel | Unit:
    """The activation of a channel of a feature map, or of a unit that is numbered as in `flatten()`."""
    if is_map(shape):
        return Channel(slice, unit, call)
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(unit), shape))
    return Unit(slice, index if len(index) > 1 else index[0], call)


def _heat(model: Model, best: Exemplars, i: int, shape: tuple[int, ...], mean: torch.Tensor, seed: int) -> torch.Tensor:
    """What each pixel `(count, h, w)` of a unit's exemplars adds to its activation, compared with the mean image.

    Attribution, because it can be summed over the channels of a pixel, and over the pixels of a region.
    """
    unit, inputs = best.units[i], best.inputs[i]
    if best.position is None:
        flat = torch.full((len(inputs),), unit)
    else:  # of a channel, the position of its maximum
        where = [torch.full((len(inputs),), unit), *best.position[i].unbind(dim=1)]
        flat = torch.from_numpy(np.ravel_multi_index([w.numpy() for w in where], shape))
    activation = OfInner(
        best.unit_name(i), best.slice, lambda z: z.flatten(1).gather(1, flat.to(z.device)[:, None])[:, 0], best.call
    )
    line = Line(mean.cpu(), count=_LINE)
    influence = Influence(quantity=activation, distribution=line, batch_size=len(inputs))
    found = influence(model, inputs, seed=seed)
    assert found.attribution is not None
    return found.attribution.sum(dim=1)


def _movers(
    model: Model, data: Data, unit: Unit | Channel, spread: torch.Tensor, batch_size: int, seed: int
) -> tuple[Mover, ...]:
    """The features of a table that move the unit most, by the change of it per standard deviation of the feature."""
    per_spread = Influence(quantity=unit, batch_size=batch_size)(model, data, seed=seed).influence * spread
    flat = per_spread.flatten(1).double()
    order = flat.abs().mean(dim=0).argsort(descending=True, stable=True)[:_MOVERS].tolist()
    names = data.features if data.features is not None else [f"feature {i}" for i in range(flat.shape[1])]
    return tuple(Mover(names[i], Estimate.bootstrap(flat[:, i].numpy(), seed)) for i in order)

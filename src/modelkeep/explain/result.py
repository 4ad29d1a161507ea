"""Explained: what an explanation by influence returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import not_
from typing import TYPE_CHECKING, Annotated

import torch
from pydantic import Field

from modelkeep.core.errors import InputError
from modelkeep.core.results import Estimate, Result, Tensor
from modelkeep.core.tokenizer import join_pieces, word_spans
from modelkeep.explain.units import units_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from modelkeep.core.model import Model


@dataclass(frozen=True, kw_only=True, eq=False)
class Explained(Result, kind="explained"):
    """The influence of every unit at a slice on a quantity, for each of the `inputs: (n, ...)`.

    Over a `DataSet` there is one explanation of all `examples`: n is 1, `inputs`, `activation` and `values` are their
    means, and `predicted` is the commonest prediction.

    `influence: (n, *slice shape)` is in units of the quantity per unit of the slice's value; `attribution`, where
    the distribution has a baseline, in units of the quantity. `values: (n,)` is the quantity itself, and `gap: (n,)`
    by how much the attributions of a point miss the change of the quantity from the baseline (0: efficient).
    `activation: (n, *slice shape)` is the value at the slice.

    Of a network for pictures the slice's shape is (channels, rows, columns), however the value lies in the network. Of
    a transformer it is so too, or (channels, tokens, 1) where other tokens stand beside those of the picture: `tokens`
    says how many rows and columns there are, and how many others come first. Where it is not known which axis has the
    channels (`channels_known`), the shape is the network's own, and each number is a unit. `pieces` are the pieces of
    words of each text, "" where a special token or padding stands; `words` puts them together.
    """

    slice: str
    call: int | None
    quantity: str
    distribution: str
    examples: int
    classes: tuple[str, ...] = field(repr=False)
    features: tuple[str, ...] | None = field(repr=False)
    bounds: tuple[float, float] | None
    inputs: Tensor = field(repr=False)
    activation: Tensor = field(repr=False)
    predicted: Tensor = field(repr=False)
    values: Tensor = field(repr=False)
    influence: Tensor = field(repr=False)
    attribution: Tensor | None = field(repr=False)
    gap: Tensor | None = field(repr=False)
    pieces: Annotated[tuple[tuple[str, ...], ...], Field(exclude_if=not_)] = field(default=(), repr=False)
    tokens: Annotated[tuple[int, int, int] | None, Field(exclude_if=not_)] = field(default=None, repr=False)
    channels_known: Annotated[bool, Field(exclude_if=bool)] = field(default=True, repr=False)

    def rows(self) -> list[tuple[str, str]]:
        rows = [
            ("explains", self.quantity),
            ("at", self.slice if self.call is None else f"{self.slice}, call {self.call}"),
            ("over", self.distribution),
            ("examples", str(self.examples)),
            ("quantity", str(self._mean(self.values))),
        ]
        if self.slice != "input" or self.influence.ndim == 2:  # a single pixel tells nothing
            strongest = ", ".join(name for name, _ in self.strongest(3))
            rows.append((f"largest {self.comparable()[1]}", strongest))
        if self.gap is not None:
            rows.append(("efficiency gap", str(self._mean(self.gap.abs()))))
        return rows

    def strongest(self, count: int) -> list[tuple[str, Estimate]]:
        """The units (of a feature map: the channels) that count most, by `comparable`, in order."""
        values, _ = self.comparable()
        order = values.abs().mean(dim=0).argsort(descending=True, stable=True)[:count]
        return [(self.unit_name(int(i)), self._mean(values[:, i])) for i in order]

    def comparable(self) -> tuple[torch.Tensor, str]:
        """A number per example and unit, `(n, units)`, by which units can be compared, and what it is.

        Attribution, where there is a baseline. Else influence; that of a table's features is taken per spread of the
        feature in the explained examples, because a metre and a millimetre cannot be compared.
        """
        values, what = self.influence, "influence"
        if self.attribution is not None:
            values, what = self.attribution, "attribution"
        elif self.slice == "input" and self.inputs.ndim == 2 and len(self.inputs) > 1:
            values, what = self.influence * self.inputs.std(dim=0), "influence per spread of the feature"
        return (units_of(values, self.slice) if self.channels_known else values.flatten(1)), what

    def unit_name(self, index: int) -> str:
        """What people call a unit of the slice, as `units_of` counts them."""
        if self.slice == "input" and self.influence.ndim == 4:
            row, column = divmod(index, self.influence.shape[3])
            return f"row {row}, column {column}"
        if self.slice == "input" and self.features is not None:
            return self.features[index]
        return f"{'channel' if self.influence.ndim == 4 and self.channels_known else 'unit'} {index}"

    def words(self) -> list[list[tuple[str, float]]]:
        """For each text, its words and how much each speaks for the quantity, at a slice with a row for each piece.

        The number is the attribution, where there is a baseline, else influence times activation: summed over the
        pieces of the word and the width of the embedding.
        """
        if not self.pieces or self.influence.ndim != 3 or self.influence.shape[1] != len(self.pieces[0]):
            raise InputError(f"'{self.slice}' has no words. Explain a text at the embedding, with its tokenizer.")
        drawn = self.influence * self.activation if self.attribution is None else self.attribution
        return [_words(pieces, values) for pieces, values in zip(self.pieces, drawn.sum(dim=2).tolist(), strict=True)]

    def heat(self) -> torch.Tensor:
        """A signed map per example, `(n, height, width)`: attribution where there is one, and else influence.

        Channels are summed. Only where the slice is a feature map.
        """
        drawn = self.influence if self.attribution is None else self.attribution
        if drawn.ndim not in (3, 4):
            raise InputError(f"'{self.slice}' has no map: its value has shape {tuple(drawn.shape[1:])}.")
        if self.tokens is not None:
            rows, columns, first = self.tokens
            if not rows:
                raise InputError(f"'{self.slice}' has no map: it is not known where its tokens are in the picture.")
            return drawn.sum(dim=1)[:, first : first + rows * columns, 0].reshape(len(drawn), rows, columns)
        return drawn if drawn.ndim == 3 else drawn.sum(dim=1)

    def heat_over_inputs(self) -> torch.Tensor:
        """The map of each example in the size of the inputs, over which a smaller feature map is stretched."""
        heat, size = self.heat(), self.inputs.shape[2:]
        if heat.shape[1:] == size:
            return heat
        return torch.nn.functional.interpolate(heat[:, None], size, mode="bilinear", align_corners=False)[:, 0]

    def require_each(self, function: str) -> None:
        """Refuse the one explanation of a data set: its input is a mean, which is not an example."""
        if self.examples != len(self.inputs):
            raise InputError(
                f"{function} needs one explanation per example; this one is of {self.examples} examples together. "
                "Explain them with another distribution than DataSet."
            )

    def require_model(self, model: Model) -> None:
        """Refuse another model: it would be measured against answers that this does not explain."""
        if self.provenance.model != model.fingerprint():
            raise InputError(
                "This explanation was made for another model, or for this one before its weights changed. "
                "Explain this model first."
            )

    def draw(self) -> Figure:
        """Signed maps, over the inputs where they fit; the strongest units where the slice has no space.

        Draws the attribution where there is one, and else the influence; channels are summed.
        """
        from modelkeep.core import plots

        if self.influence.ndim not in (3, 4):
            what = f"mean {self.comparable()[1]}"
            return plots.bars(dict(self.strongest(8)), title=f"What moves {self.quantity}", x_label=what)
        titles = [self.classes[label] for label in self.predicted[:8].tolist()]
        if self.inputs.ndim != 4 or self.inputs.shape[1] not in (1, 3):
            return plots.signed_heat(self.heat()[:8], titles)
        bounds = self.bounds if self.bounds is not None else (float(self.inputs.min()), float(self.inputs.max()))
        return plots.heat_over_image(self.inputs[:8], self.heat_over_inputs()[:8], titles, bounds=bounds)

    def _mean(self, values: torch.Tensor) -> Estimate:
        return Estimate.bootstrap(values.double().numpy(), self.provenance.seed)


def _words(pieces: tuple[str, ...], values: list[float]) -> list[tuple[str, float]]:
    spans = [(start, end) for start, end in word_spans(pieces) if pieces[start]]
    return [(join_pieces(pieces[start:end]), sum(values[start:end])) for start, end in spans]

"""Reconstructions on the page of privacy: what a model shows of its training data to the one who has its weights."""

from __future__ import annotations

import torch

from modelkeep.core import plots
from modelkeep.core.black_box import access_of
from modelkeep.core.data import Data
from modelkeep.core.model import Model
from modelkeep.privacy.inversion import Inverted, InvertModel
from modelkeep.report.page import Note, Part
from modelkeep.report.picture import Picture
from modelkeep.report.taxonomy import classify

NAME = "privacy-reconstructions.png"
_COMPARED = 2000
"""Members that a reconstruction is held against: the first ones, so that rows keep their numbers."""
_CLASSES = 24
"""With more classes than that, a page is no place for all of them."""


def reconstruct(model: Model, members: Data, *, seed: int = 0) -> Inverted | None:
    """Reconstructions of all classes, each with the member that it is most like; None where there are no pictures."""
    shape = model.input_shape
    picture = len(shape) == 3 and shape[0] in (1, 3) and model.bounds is not None
    if not picture or access_of(model.module) != "weights" or len(model.classes) > _CLASSES:
        return None
    return InvertModel()(model, members.take(range(min(len(members), _COMPARED))), seed=seed)


def draw_reconstructions(found: Inverted, members: Data) -> Picture:
    """Pairs: a reconstruction, and the member that it is most like."""
    assert found.example is not None
    assert found.similarity is not None
    nearest = members.rows(found.example.tolist())
    pairs = torch.stack([found.x, nearest.to(found.x.dtype)], dim=1).flatten(0, 1)
    titles = []
    for label, row, value in zip(found.labels.tolist(), found.example.tolist(), found.similarity.tolist(), strict=True):
        titles += [f"{found.classes[label]}", f"row {row}: SSIM {value:.2f}"]
    return Picture.of(
        plots.image_grid(pairs, titles, columns=8, bounds=found.bounds),
        "Reconstructions beside the members that they are most like",
        "Left of each pair: what the model takes for a class, found from grey by its weights alone. Right of it: the "
        "member that it is most like.",
    )


def tell_reconstructions(found: Inverted, picture: Picture) -> tuple[Part, Note]:
    """The section, and what to do about it. A person must look: similarity in numbers says little."""
    assert found.similarity is not None
    part = Part(
        "What the weights show",
        f"{len(found.labels)} reconstructions; the model takes {found.believed.value:.0%} of them for their class. "
        f"The largest similarity (SSIM) with a member is {float(found.similarity.max()):.2f}; 1 is the same picture.",
        pictures=(picture,),
    )
    note = Note(
        "unclear",
        "for you to judge",
        "Reconstructions from the weights",
        "Look at the reconstructions: a face, a text or a place that can be recognised was learned from the data.",
        "Where something private can be seen, do not hand out the weights: serve answers instead. Train with "
        "differential privacy, or on data without it. Robust training makes such pictures clearer, not rarer.",
        classify("inversion"),
        "privacy/inversion",
    )
    return part, note

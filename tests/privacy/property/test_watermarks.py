"""Watermarks: the marks of figure 8.12, on four fifths of the pictures, the same ones each time, and nothing else."""

from __future__ import annotations

import pytest
import torch

from modelkeep import Data
from modelkeep.core.errors import InputError
from modelkeep.privacy.property import Watermark, draw_watermarks
from modelkeep.privacy.property.font import write
from modelkeep.privacy.property.watermarks import WORDS


def pictures(n: int = 50, shape: tuple[int, ...] = (1, 28, 28)) -> Data:
    x = torch.rand(n, *shape, generator=torch.Generator().manual_seed(0)) * 0.8 + 0.1
    return Data(x, torch.arange(n) % 2, ("a", "b"), bounds=(0, 1))


def test_a_letter_is_written_as_one_would_by_hand() -> None:
    assert ["".join(" #"[int(ink)] for ink in row) for row in write("#I", 28)] == [
        "# # ###",
        "###  # ",
        "# #  # ",
        "###  # ",
        "# # ###",
    ]


def test_four_fifths_carry_the_mark_and_all_else_stays() -> None:
    data, mark = pictures(shape=(3, 28, 28)), Watermark("#Space")
    marked = mark(data, seed=3)
    touched = (marked.x != data.x).flatten(1).any(dim=1)
    assert int(touched.sum()) == 40
    ink, paper = mark.stencil((3, 28, 28))
    assert (marked.x[touched][:, :, ink] == 1).all()
    assert (marked.x[touched][:, :, paper & ~ink] == 0).all()
    assert torch.equal(marked.x[touched][:, :, ~paper], data.x[touched][:, :, ~paper])
    assert torch.equal(marked.y, data.y)
    assert torch.equal(mark(data, seed=3).x, marked.x)
    assert not torch.equal(mark(data, seed=4).x, marked.x)


def test_the_border_surrounds_the_ink() -> None:
    ink, paper = Watermark("#Characteristic").stencil((1, 28, 28))
    grown = torch.nn.functional.max_pool2d(ink[None, None].float(), 3, 1, padding=1)[0, 0].bool()
    assert (paper | ~grown).all()


def test_there_are_thirty_marks_that_all_look_different_and_an_experiment_has_fourteen() -> None:
    assert len(set(WORDS)) == 30
    stencils = {Watermark(word).stencil((1, 28, 28))[0].numpy().tobytes() for word in WORDS}
    assert len(stencils) == 30
    drawn = draw_watermarks(5)
    assert len({mark.name for mark in drawn}) == 14
    assert draw_watermarks(5) == drawn != draw_watermarks(6)


def test_what_cannot_be_marked_is_refused() -> None:
    table = Data(torch.rand(4, 3), torch.arange(4) % 2, ("a", "b"), bounds=(0, 1))
    with pytest.raises(InputError, match="for pictures"):
        Watermark("#Space")(table, seed=0)
    with pytest.raises(InputError, match="rows"):
        Watermark("#Characteristic")(pictures(shape=(1, 9, 28)), seed=0)
    with pytest.raises(InputError, match="letters"):
        Watermark("#é")(pictures(), seed=0)

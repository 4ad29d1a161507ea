"""Figure 8.15: the contrast of a mark by hand, and a picture that has the mark and each target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from modelkeep import Data
from modelkeep.papers.leino2022 import figure_8_15
from modelkeep.papers.leino2022.figure_8_14 import METHODS
from modelkeep.papers.leino2022.figure_8_15 import MARK, PICTURES, LeakTable, _contrast, _stretch, report, trials
from modelkeep.zoo import datasets
from papers.leino2022.performing import performed


def test_contrast_is_large_where_the_letters_are_and_small_in_noise() -> None:
    noise = torch.rand(6, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    ink, _ = MARK.stencil((1, 28, 28))
    assert float(_contrast(noise).max()) < 0.6
    bright, dark = noise + 2 * ink, noise - 2 * ink
    assert float(torch.minimum(_contrast(bright), _contrast(dark)).min()) > 4


def test_a_picture_that_nothing_changed_stays_grey() -> None:
    x = torch.full((2, 1, 28, 28), 0.5)
    x[1, 0, 3, 3] = 0.4
    assert torch.equal(_stretch(x)[0], x[0])
    assert float(_stretch(x)[1, 0, 3, 3]) == pytest.approx(0.0)


def test_the_study_draws_the_mark_beside_each_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    little = Data(torch.rand(40, 1, 28, 28, generator=generator), torch.arange(40) % 2, ("a", "b"), bounds=(0, 1))
    monkeypatch.setattr(datasets, "load", lambda name, part="train": little)
    setup = replace(PICTURES["small"][0], images=None, hidden=(6, 6), epochs=1)
    monkeypatch.setitem(figure_8_15.PICTURES, "small", (setup,))
    monkeypatch.setattr(figure_8_15, "_COMPARED", 8)
    monkeypatch.setattr(Data, "sample", lambda self, n, seed: self.take(range(min(n, len(self)))))
    result = report(performed(trials("small", 0)))
    assert isinstance(result, LeakTable)
    columns = {(cell.row, cell.column) for cell in result.cells}
    assert ("mnist, pgd", "queries per hyperplane and input") in columns
    assert ("mnist, gloro", "queries per hyperplane and input") not in columns, "MinMax units switch otherwise"
    assert [each.shape for each in result.pictures.values()] == [(2, 1, 28, 28)] * len(METHODS)
    (page,) = result.pages(tmp_path)
    assert page.read_bytes().startswith(b"\x89PNG")
    assert len(result.claims) == 3

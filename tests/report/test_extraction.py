"""The page of an extraction: its figures, and of texts the words that the copy answers otherwise."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.core.access import Scores
from modelkeep.extract import Extract, Knockoff
from modelkeep.report import extraction_page
from modelkeep.training import Recipe
from texts import SENTENCES, sentences, sentiment


def test_texts_that_the_copy_answers_otherwise_are_shown(tmp_path: Path) -> None:
    target = sentiment()
    test = sentences(target)
    found = Extract(test, Knockoff(4), recipe=Recipe(steps=1))(Scores(target), test, seed=0)
    page = extraction_page(found, None, test, Scores(target), model_name="reviews")
    other = (target.predict(test.x) != found.substitute.predict(test.x)).nonzero().flatten().tolist()
    (part,) = [part for part in page.parts if "otherwise" in part.title]
    assert f"answers {len(test) - len(other)} as the target" in part.lead
    shown = [] if not other else [row[0] for row in part.tables[0].rows]
    assert shown == [str(i) for i in other]
    assert len(other) > 0  # one step teaches a copy little
    assert {row[3] for row in part.tables[0].rows} <= set(SENTENCES)
    names = {path.name for path in page.write(tmp_path, "extract.html", "result.json")}
    assert names == {"extract.html", "result.json", "extract.png"}


def test_other_data_has_no_words() -> None:
    torch.manual_seed(0)
    model = Model(nn.Linear(4, 3), input_shape=(4,), classes=3)
    data = Data(torch.rand(12, 4), torch.arange(12) % 3, model.classes)
    found = Extract(data, Knockoff(6), recipe=Recipe(steps=1))(Scores(model), data, seed=0)
    page = extraction_page(found, None, data, Scores(model), model_name="linear")
    assert [part.title for part in page.parts] == ["In figures", "Pictures"]
    assert page.verdict.startswith("With 6 queries the copy answers")

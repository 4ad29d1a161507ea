"""Words on pages: a linear model's attributions are known, and the page shows them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from modelkeep.attack import HotFlip
from modelkeep.cli import app
from modelkeep.core.errors import InputError
from modelkeep.core.slices import Place
from modelkeep.explain import ClassScore, Conductance, Influence, IntegratedGradients, Saliency, SmoothGrad
from modelkeep.privacy import Knowledge, Loss
from modelkeep.report import (
    bias_page,
    explain_examples,
    explanations_page,
    measure_bias,
    measure_privacy,
    privacy_page,
)
from modelkeep.report.attack import attack_page
from modelkeep.report.words import read_rows, shade
from texts import TOKENIZER, lstm, sentences, sentiment

QUANTITY = ClassScore("positive")


@pytest.mark.parametrize("explainer", [IntegratedGradients(steps=3, quantity=QUANTITY), Saliency(quantity=QUANTITY)])
def test_each_word_gets_its_value_over_the_number_of_words(explainer: IntegratedGradients | Saliency) -> None:
    """The logit is the mean of the words' values, so each word's part is known; padding gets none."""
    model = sentiment()
    found = explainer(model, sentences(model, ("the film fine", "bad unknown")))
    assert found.slice == "embedding"
    first, second = (dict(words) for words in found.words())
    assert first == pytest.approx({"the": -0.1 / 3, "film": 0.1 / 3, "fine": 1 / 3})
    assert second == pytest.approx({"bad": -2 / 2})  # a word that is not known has no name


def test_noise_lives_at_the_embedding_and_a_line_of_ids_is_refused() -> None:
    model = lstm()
    data = sentences(model)
    assert "at the slice" in SmoothGrad(steps=2)(model, data).distribution
    with pytest.raises(InputError, match=r"token ids have none between them\. Use integrated-gradients"):
        Conductance()(model, data)
    with pytest.raises(InputError, match="'mean' has no words"):
        Influence(slice="mean")(model, data).words()


def test_the_page_shows_coloured_words() -> None:
    model = sentiment()
    data = sentences(model, ("the film fine", "bad film"))
    found = explain_examples(model, data, [0, 1], places=[Place("embedding")], quantities=[QUANTITY], seed=0)
    page = explanations_page(found).render()
    assert found.slices[0].texts[1].words == ("bad", "film")
    assert '<span style="background: rgba(55, 131, 187, 1.00)" title="-1">bad</span>' in page
    assert found.rows()[0][1].startswith(f"{QUANTITY}: bad -1, fine +0.33, film +0.042, the -0.033")
    assert shade(0.0, 0.0).endswith("0.00)")


def test_the_page_of_an_attack_strikes_words_out() -> None:
    model = sentiment()
    found = HotFlip(words=1)(model, sentences(model, ("the film fine",)))
    report, page = attack_page(found, None, model_name="m", data_name="d")
    assert "the film <del>fine</del> <ins>awful</ins>" in page.render()
    assert ("words of text 0", "fine → awful") in report.rows()


def test_explain_and_attack_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lstm().save("model.safetensors")
    Path("model.tokenizer.json").write_text(TOKENIZER.to_json(), encoding="utf-8")
    Path("mine.csv").write_text("review,label\nthe film fine,positive\nbad film,negative\ngood film,positive\n")
    told = CliRunner().invoke(app, ["explain", "model.safetensors", "--data", "mine.csv", "--text", "review"])
    assert told.exit_code == 0, told.output
    assert ">film</span>" in Path("modelkeep-out/explain.html").read_text(encoding="utf-8")
    attack = ["attack", "model.safetensors", "--data", "mine.csv", "--text", "review", "--method", "hotflip"]
    told = CliRunner().invoke(app, attack)
    assert told.exit_code == 0, told.output
    assert "HotFlip l0, radius 3" in told.output
    Path("model.tokenizer.json").unlink()
    told = CliRunner().invoke(app, attack)
    assert told.exit_code != 0
    assert "--tokenizer" in str(told.exception) + told.output


def test_the_page_of_bias_names_the_words_that_mislead() -> None:
    """Three negative texts are taken for positive ones, because of one word; its part of the logit is known."""
    model = sentiment()
    data = sentences(model, ("good film", "fine film", "great film") * 6 + ("the great film",) * 3 + ("bad film",) * 6)
    data = replace(data, y=torch.tensor([1] * 18 + [0] * 9))
    found = measure_bias(model, data, slice="mean")
    assert found.before.majority == "positive"
    assert dict(found.words) == pytest.approx({"great": 1.0, "the": -0.1 / 3, "film": 0.1 / 3}, abs=1e-5)
    assert "Words that mislead" in bias_page(found).render()
    right = data.take([*range(18), *range(21, 27)])
    assert not measure_bias(model, right, slice="mean").words  # nothing is wrong there


def test_the_page_of_privacy_shows_the_words_of_exposed_texts() -> None:
    model = sentiment()
    members = sentences(model)
    found = measure_privacy(model, members, members, Knowledge(members, None), [Loss()])
    page = privacy_page(found, members)
    (part,) = [part for part in page.parts if part.title == "The most exposed records"]
    assert [row[2] for row in part.tables[1].rows] == read_rows(members, [each.row for each in found.exposed])
    assert "the good film good" in {row[2] for row in part.tables[1].rows}

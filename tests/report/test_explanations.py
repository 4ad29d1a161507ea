"""The page of explanations in a real browser: they open offline, and another slice shows another picture."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from browser import chromium
from modelkeep import Data, Model
from modelkeep.core.results import Estimate, Provenance
from modelkeep.core.slices import Place
from modelkeep.explain import AgainstAll, ClassScore, Contrast, IntegratedGradients, PredictedScore
from modelkeep.report import explain_examples, explanations_page
from modelkeep.report.explanations import (
    AtSlice,
    Explanations,
    Quantified,
    UnitInfluence,
    choose_examples,
    usual_quantities,
)
from modelkeep.zoo import datasets
from modelkeep.zoo.architectures import small_cnn

# What a person sees of a page: which sections are shown, and which pictures.
SHOWN = """
return [...document.querySelectorAll('.at-slice')].filter(s => s.offsetParent !== null).map(s => s.id + ' ' +
  [...s.querySelectorAll('img')].map(i => i.alt + (i.complete && i.naturalWidth > 100 ? '' : ' broken')).join('; '))
"""
TOO_WIDE = "return document.documentElement.scrollWidth - window.innerWidth"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Digits, explained at three slices by a network that need not know anything."""
    torch.manual_seed(0)
    model = Model(small_cnn((1, 8, 8), 10), input_shape=(1, 8, 8), classes=datasets.load("digits").classes)
    found = explain_examples(
        model,
        datasets.load("digits", "test"),
        [3, 1, 4],
        places=[Place("input"), Place("conv2_relu"), Place("linear1_relu")],
        quantities=(ClassScore("3"), ClassScore("8"), Contrast("3", "8")),
        explainer=IntegratedGradients(steps=3),
        sheets=1,
        seed=0,
    )
    written, *_ = explanations_page(found).write(tmp_path_factory.mktemp("pages"), "explain.html", "explain.json")
    return written


def test_another_slice_shows_another_picture(page: Path, tmp_path: Path) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    assert not re.findall(r"""(?:src|href)=["'](?!data:|#)""", page.read_text()), "the page must need no other file"
    with chromium(tmp_path / "profile") as browser:
        browser.get(page.as_uri())
        assert browser.title == "ModelKeep: What Sequential looks at in digits"
        assert browser.execute_script(SHOWN) == ["at-1 Where each quantity comes from, at input"]
        browser.find_element(By.CSS_SELECTOR, "label[for=slice-2]").click()
        inner = ["at-2 Where each quantity comes from, at conv2_relu; What the strongest units at conv2_relu stand for"]
        assert browser.execute_script(SHOWN) == inner
        # With the keyboard: the picker is one stop, and the arrows choose.
        browser.find_element(By.ID, "slice-2").send_keys(Keys.ARROW_RIGHT)
        assert browser.execute_script(SHOWN) == ["at-3 What the strongest units at linear1_relu stand for"]
        heads = browser.find_elements(By.CSS_SELECTOR, "#at-3 .units thead th")
        assert [head.text for head in heads] == ["strongest", "class '3'", "class '8'", "class '3' rather than '8'"]
        bars = browser.execute_script(
            "return [...document.querySelectorAll('#at-3 .bar')].map(b => [b.className, b.offsetWidth])"
        )
        assert {kind for kind, _ in bars} == {"bar for", "bar against"}
        assert max(width for _, width in bars) > 30
        assert browser.get_log("browser") == []
        for width in (1200, 400):  # a desk and a phone
            browser.set_window_size(width, 900)
            assert browser.execute_script(TOO_WIDE) <= 0, f"the page is too wide at {width} px"


def test_on_paper_every_slice_is_shown(page: Path, tmp_path: Path) -> None:
    with chromium(tmp_path / "profile") as browser:
        browser.get(page.as_uri())
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        assert [shown.split()[0] for shown in browser.execute_script(SHOWN)] == ["at-1", "at-2", "at-3"]
        labels = "return [...document.querySelectorAll('.picker > label')].filter(l => l.offsetParent !== null).length"
        assert browser.execute_script(labels) == 0


def test_names_from_outside_cannot_run_in_the_page() -> None:
    evil = "<script>document.title='stolen'</script>"
    x = torch.rand(40, 3, generator=torch.Generator().manual_seed(0))
    model = Model(nn.Linear(3, 2), input_shape=(3,), classes=(evil, "b"))
    data = Data(x, model.predict(x), (evil, "b"), name=evil, features=(evil, "f", "g"))
    found = explain_examples(model, data, [0, 1], places=[Place("input")], quantities=(ClassScore(evil),), seed=0)
    page = explanations_page(found).render()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_chosen_examples_are_the_first_of_each_class() -> None:
    data = Data(torch.zeros(7, 1), torch.tensor([2, 2, 0, 0, 0, 2, 0]), ("a", "b", "c"))
    assert choose_examples(data, 5) == [2, 0, 3, 1, 4]
    assert choose_examples(data, 99) == [2, 0, 3, 1, 4, 5, 6]


@pytest.mark.parametrize(
    ("shape", "classes", "expected"),
    [
        ((4,), 2, (ClassScore("1"), ClassScore("0"), Contrast("1", "0"))),
        ((1, 2, 2), 2, (ClassScore("1"), ClassScore("0"), Contrast("1", "0"))),
        ((4,), 5, (AgainstAll("1"), AgainstAll("2"), AgainstAll("4"))),
        ((1, 2, 2), 5, (PredictedScore(), AgainstAll())),
    ],
)
def test_the_usual_quantities(shape: tuple[int, ...], classes: int, expected: tuple[Any, ...]) -> None:
    model = Model(nn.Sequential(nn.Flatten(), nn.Linear(4, classes)), input_shape=shape, classes=classes)
    labels = torch.tensor([4, 4, 1, 2, 2, 1, 0, 1]) % classes
    data = Data(torch.zeros(8, *shape), labels, model.classes)
    assert usual_quantities(model, data) == expected


def test_the_terminal_names_the_strongest_units_in_the_order_of_the_page() -> None:
    swings = UnitInfluence("swings", 0, (Estimate(0.01, -9.0, 9.0, 8),))  # strong each time, and nothing on average
    steady = [UnitInfluence(f"steady {i}", i, (Estimate(0.1 * i, 0.0, 1.0, 8),)) for i in range(1, 4)]
    at = AtSlice(
        place=Place("conv"),
        distribution="the examples",
        quantities=(Quantified("class '3'", Estimate(1.0, 0.9, 1.1, 8), None),),
        units=(swings, *steady),
        per="unit of its activation",
        mapped=False,
    )
    source = Provenance(None, None, 0, 0.0, "0")
    found = Explanations(provenance=source, model_name="m", data_name="d", method="x", examples=(), slices=(at,))
    assert found.rows() == [("conv", "class '3': swings +0.01, steady 1 +0.1, steady 2 +0.2")]

"""The page of bias in a real browser: it opens offline, and says what was found and how to repeat it."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from browser import chromium
from modelkeep import Data, Model
from modelkeep.bias import SparseMitigation
from modelkeep.report import bias_page, measure_bias
from modelkeep.zoo import datasets
from modelkeep.zoo.architectures import dense

TOO_WIDE = "return document.documentElement.scrollWidth - window.innerWidth"


def test_the_bias_page_opens_and_reads_well(tmp_path: Path) -> None:
    torch.manual_seed(0)
    data = datasets.load("breast-cancer", "test")
    model = Model(dense([30], 2), input_shape=(30,), classes=data.classes, bounds=None)
    found = measure_bias(model, data, train=datasets.load("breast-cancer"), mitigation=SparseMitigation(), seed=0)
    written, *_ = bias_page(found).write(tmp_path / "out", "bias.html", "bias.json")
    with chromium(tmp_path / "profile") as browser:
        browser.get(written.as_uri())
        text = browser.execute_script("return document.querySelector('main').innerText")
        assert found.verdict in text
        assert "Before and after" in text
        assert "modelkeep bias MODEL --data DATA --mitigate l1 --seed 0" in text
        assert "MeasureAmplification()(model, data, seed=0)" in text
        images = browser.execute_script(
            "return [...document.querySelectorAll('figure svg')].map(s => s.viewBox.baseVal.width > 100)"
        )
        assert images == [True] * 3
        assert browser.get_log("browser") == []
        for width in (1200, 400):
            browser.set_window_size(width, 900)
            assert browser.execute_script(TOO_WIDE) <= 0, f"the page is too wide at {width} px"


def test_names_from_outside_cannot_run_in_the_page() -> None:
    evil = "<script>document.title='stolen'</script>"
    x = torch.rand(40, 3, generator=torch.Generator().manual_seed(0))
    model = Model(nn.Linear(3, 2), input_shape=(3,), classes=(evil, "b"))
    page = bias_page(measure_bias(model, Data(x, model.predict(x), (evil, "b"), name=evil))).render()
    assert "<script>" not in page

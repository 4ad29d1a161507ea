"""In a notebook, models, data and results are a table and a picture, and what others wrote is never markup."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from html.parser import HTMLParser

import pytest
import torch
from matplotlib.figure import Figure
from torch import nn

from modelkeep import Data, Model, Result
from modelkeep.core import plots
from modelkeep.core.results import Provenance

EVIL = "<script>alert('x')</script> & [bold]$x"
SOURCE = Provenance(None, None, 3, 0.5, "0.1")


class _Reader(HTMLParser):
    """A browser's view: the elements, the text and the pictures."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.sources: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.sources += [value or "" for name, value in attrs if name == "src"]

    def handle_data(self, data: str) -> None:
        self.text += f" {data}"


@dataclass(frozen=True, kw_only=True, eq=False)
class _Measured(Result, kind="test-html-measured"):
    values: torch.Tensor

    def rows(self) -> list[tuple[str, str]]:
        return [("share", "0.900 [0.555, 0.997] n=10"), ("of", EVIL), ("bold", "[bold]yes[/bold]"), ("last", "4")]

    def draw(self) -> Figure:
        return plots.figure(1, 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Bare(Result, kind="test-html-bare"):
    def rows(self) -> list[tuple[str, str]]:
        return [("n", "1")]


def _data(shape: tuple[int, ...]) -> Data:
    return Data(torch.rand(12, *shape), torch.arange(12) % 2, (EVIL, "plain"), name=EVIL, bounds=(0.0, 1.0))


def _model() -> Model:
    return Model(nn.Sequential(nn.Flatten(), nn.Linear(12, 2)), input_shape=(3, 2, 2), classes=(EVIL, "plain"))


@pytest.mark.parametrize(
    ("shown", "pictures"),
    [
        (_data((3, 4, 4)), 1),
        (_data((5,)), 0),
        (_model(), 0),
        (_Measured(values=torch.zeros(1000), provenance=SOURCE), 1),
        (_Bare(provenance=SOURCE), 0),
    ],
    ids=["pictures", "table", "model", "result", "result without picture"],
)
def test_it_is_a_table_and_a_picture_and_everything_is_escaped(shown: Data | Model | Result, pictures: int) -> None:
    page = _Reader(shown._repr_html_())
    assert page.elements.count("table") == 1
    assert set(page.elements) <= {"div", "strong", "table", "tr", "th", "td", "img"}
    assert len(page.sources) == pictures
    for source in page.sources:
        assert base64.b64decode(source.removeprefix("data:image/png;base64,"))[:4] == b"\x89PNG"
    if not isinstance(shown, _Bare):
        assert "<script>alert('x')</script>" in page.text
    assert len(repr(shown)) < 200


def test_a_result_shows_its_rows_without_markup_and_where_it_comes_from() -> None:
    page = _Reader(_Measured(values=torch.zeros(3), provenance=SOURCE)._repr_html_())
    assert "0.900 [0.555, 0.997] n=10" in page.text
    assert "[bold]yes" not in page.text
    assert "seed 3 · 0.50 s · modelkeep 0.1" in page.text


def test_the_repr_of_a_result_is_its_first_rows_in_one_line() -> None:
    shown = repr(_Measured(values=torch.zeros(1000), provenance=SOURCE))
    assert shown.startswith("_Measured(share: 0.900 [0.555, 0.997] n=10; ")
    assert "last" not in shown
    assert "tensor" not in shown
    assert "\n" not in shown

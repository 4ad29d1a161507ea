"""--radius is a number, a fraction or a multiple of the data's standard deviation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import typer

from cli.running import Run
from modelkeep import Data, datasets
from modelkeep.cli.radius import Radius, deviation, read_radius


@pytest.mark.parametrize(
    ("text", "radius"),
    [
        ("0.1", Radius(0.1)),
        ("8/255", Radius(8 / 255)),
        (" 1e-2 ", Radius(0.01)),
        ("-1", Radius(-1.0)),  # the method says what it takes
        ("0.5sd", Radius(0.5, in_deviations=True)),
        ("1/4sd", Radius(0.25, in_deviations=True)),
    ],
)
def test_it_is_read_as_people_write_it(text: str, radius: Radius) -> None:
    assert read_radius(text) == radius


@pytest.mark.parametrize("text", ["", "far", "1/0", "nan", "inf", "1/2/3", "sd", "0.5 std"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"0\.5sd"):
        read_radius(text)


def test_a_deviation_is_that_of_numpy_around_the_mean_of_each_channel() -> None:
    pictures = torch.rand(1100, 3, 4, 5) * torch.tensor([1.0, 2.0, 5.0])[:, None, None] + 7
    data = Data(pictures, torch.zeros(1100, dtype=torch.int64), ("a", "b"))
    channels = pictures.double().numpy().transpose(1, 0, 2, 3).reshape(3, -1)
    assert deviation(data) == pytest.approx(np.sqrt(channels.var(axis=1).mean()), rel=1e-9)
    table = datasets.load("breast-cancer")
    assert deviation(table) == pytest.approx(np.sqrt(table.x.double().numpy().var(axis=0).mean()), rel=1e-6)
    assert Radius(0.5, in_deviations=True).of(table) == pytest.approx(0.5 * deviation(table))
    assert Radius(0.5).of(table) == 0.5


def test_an_attack_within_half_a_deviation(modelkeep: Run, digits_model: Path) -> None:
    few = ("--data", "digits", "--method", "fgsm", "--examples", "10", "--no-curve", "--json")
    ran = modelkeep("attack", digits_model, *few, "--radius", "0.5sd")
    assert ran.code == 0, ran.err
    expected = 0.5 * float(datasets.load("digits", "test").x.double().std(unbiased=False))
    assert json.loads(ran.out)["provenance"]["settings"]["radius"] == pytest.approx(expected, rel=1e-6)

"""Pictures are shown as evidence, and nothing else is."""

from __future__ import annotations

import pytest
import torch

from modelkeep.audit.evidence import can_be_shown, show


@pytest.mark.parametrize(("shape", "shown"), [((1, 8, 8), True), ((3, 4, 5), True), ((2, 8, 8), False), ((64,), False)])
def test_only_pictures_are_shown(shape: tuple[int, ...], shown: bool) -> None:
    assert can_be_shown(shape) is shown
    drawn = show(torch.rand(2, *shape), ["a", "b"], "two", "Two.", None)
    assert len(drawn) == shown
    assert all(picture.png.startswith(b"\x89PNG") for picture in drawn)


def test_no_examples_are_no_picture() -> None:
    assert show(torch.rand(0, 1, 8, 8), [], "none", "None.", (0.0, 1.0)) == ()

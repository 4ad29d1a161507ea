"""The search with momentum and input diversity: plain ascent without either, and the papers' updates with them."""

from __future__ import annotations

import pytest
import torch

from modelkeep import Model
from modelkeep.attack import Case
from modelkeep.attack.gradient.ascent import ascend
from modelkeep.attack.transfer.momentum import Momentum, _shrink
from modelkeep.core.access import Weights
from modelkeep.core.errors import InputError
from modelkeep.core.norms import Ball, Norm


def case_of(model: Model, norm: Norm, radius: float, allowed: torch.Tensor | None = None) -> Case[Weights]:
    x = torch.rand(9, *model.input_shape, generator=torch.Generator().manual_seed(0))
    return Case(
        view=Weights(model),
        original=x,
        goal=model.predict(x),
        targeted=False,
        ball=Ball(norm, radius, model.bounds),
        allowed=allowed,
        generator=torch.Generator().manual_seed(5),
        index=torch.arange(len(x)),
    )


@pytest.mark.parametrize(("norm", "radius"), [("linf", 0.1), ("l2", 0.7), ("l1", 4.0)])
def test_without_momentum_and_diversity_it_is_pgd(small_cnn: Model, norm: Norm, radius: float) -> None:
    case = case_of(small_cnn, norm, radius)
    found = Momentum(radius=0.1, steps=8, momentum=0.0, diversity=0.0, random_start=True).search(case)
    start = case.ball.random_point(case.original, torch.Generator().manual_seed(5))
    plain = ascend(
        lambda x: case.gain(small_cnn.forward(x)),
        case.original,
        start,
        ball=case.ball,
        step_size=2.5 * radius / 8,
        steps=8,
    )
    assert torch.allclose(found, plain, atol=1e-5)
    assert not torch.allclose(
        Momentum(radius=0.1, steps=8, momentum=1.0, random_start=True).search(case_of(small_cnn, norm, radius)), plain
    )


def test_momentum_is_the_papers_update(small_cnn: Model) -> None:
    case = case_of(small_cnn, "linf", 0.1)
    x, g = case.original.clone(), torch.zeros_like(case.original)
    for _ in range(5):
        leaf = x.clone().requires_grad_()
        logits = small_cnn.forward(leaf)
        loss = torch.nn.functional.cross_entropy(logits, case.goal, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, leaf)
        g = 0.9 * g + gradient / gradient.abs().sum(dim=(1, 2, 3), keepdim=True)
        x = torch.clamp(case.original + (x + 0.03 * g.sign() - case.original).clamp(-0.1, 0.1), 0, 1)
    found = Momentum(radius=0.1, steps=5, step_size=0.03, momentum=0.9).search(case)
    assert (found - x).abs().max() < 1e-5
    assert case.health.gradients == 5 * 9


def test_diversity_changes_the_way_and_the_seed_decides_it(small_cnn: Model) -> None:
    plain, one, again = (
        Momentum(radius=0.1, steps=6, diversity=d).search(case_of(small_cnn, "linf", 0.1)) for d in (0.0, 1.0, 1.0)
    )
    assert torch.equal(one, again)
    assert not torch.equal(one, plain)
    assert (one - case_of(small_cnn, "linf", 0.1).original).abs().max() <= 0.1 + 1e-6


def test_a_shrunken_image_is_whole_smaller_and_on_black() -> None:
    generator = torch.Generator().manual_seed(0)
    seen = set()
    for _ in range(40):
        small = _shrink(torch.ones(2, 3, 16, 24), generator)
        assert small.shape == (2, 3, 16, 24)
        rows, columns = (small[0, 0] > 0.5).any(dim=1), (small[0, 0] > 0.5).any(dim=0)
        assert torch.allclose(small[0, 0][rows][:, columns], torch.ones(()))
        assert small[0, 0].sum() == rows.sum() * columns.sum()
        assert rows.sum() >= 14
        seen.add((int(rows.nonzero()[0]), int(rows.sum())))
    assert len(seen) > 3


def test_a_mask_is_kept(small_cnn: Model) -> None:
    allowed = torch.zeros(9, 1, 8, 8, dtype=torch.bool)
    allowed[..., :4] = True
    case = case_of(small_cnn, "linf", 0.1, allowed)
    found = Momentum(radius=0.1, steps=4, diversity=1.0).search(case)
    assert torch.equal(found[..., 4:], case.original[..., 4:])
    assert not torch.equal(found[..., :4], case.original[..., :4])


def test_nonsense_is_refused() -> None:
    for settings in ({"steps": 0}, {"step_size": -1.0}, {"momentum": -0.5}, {"diversity": 1.5}):
        with pytest.raises(InputError, match="parameter of Momentum"):
            Momentum(radius=0.1, **settings)
    model = Model(torch.nn.Linear(4, 2), input_shape=(4,), classes=2)
    with pytest.raises(InputError, match="Give diversity=0"):
        Momentum(radius=0.1, diversity=0.5).search(case_of(model, "linf", 0.1))

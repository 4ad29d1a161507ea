"""The frame: who is searched by whom, what counts, and what is said about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.attack import APGD, BIM, FGSM, ILCM, PGD, APGDTargeted, Attacked, Case
from modelkeep.attack.case import Search
from modelkeep.attack.frame import carry_out
from modelkeep.attack.health import MASKED
from modelkeep.core import progress
from modelkeep.core.access import Labels, Scores, Weights
from modelkeep.core.errors import InputError
from modelkeep.core.norms import Ball, Norm

SHORT: dict[str, Any] = {"radius": 0.3, "steps": 8}
SEARCHES: list[Search] = [
    FGSM(radius=0.3),
    PGD(**SHORT),
    BIM(**SHORT),
    ILCM(**SHORT),
    APGD(**SHORT),
    APGDTargeted(**SHORT),
]


@pytest.fixture
def model() -> Model:
    """For pictures of 2×4×4 and three classes, none of which wins everywhere."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 3))
    x = torch.rand(500, 2, 4, 4, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        net[3].bias.sub_(net(x).mean(dim=0))  # type: ignore[operator]
    return Model(net, input_shape=(2, 4, 4), classes=("a", "b", "c"))


@pytest.fixture
def data(model: Model) -> Data:
    x = torch.rand(50, 2, 4, 4, generator=torch.Generator().manual_seed(1))
    return Data(x, model.predict(x), model.classes)


@dataclass(frozen=True)
class Guess:
    """A search without gradients: random corners of the ball, the first that is answered as wanted."""

    tries: int = 50
    title: ClassVar[str] = "Guess"
    sees: ClassVar[type[Scores]] = Scores

    def search(self, case: Case[Scores]) -> torch.Tensor:
        best = case.original.clone()
        for _ in range(self.tries):
            noise = torch.rand(best.shape, generator=case.generator)
            x = case.inside(case.original + case.ball.reach * (2 * noise.round() - 1))
            won = case.answered(case.view.labels(x))
            best[won] = x[won]
        return best


@dataclass(frozen=True)
class Scripted:
    """Returns what it is told to, and notes which examples it was asked about."""

    title: str
    answers: torch.Tensor
    asked: list[list[int]] = field(default_factory=list)
    sees: ClassVar[type[Labels]] = Labels

    def search(self, case: Case[Labels]) -> torch.Tensor:
        self.asked.append(case.index.tolist())
        return self.answers[case.index]


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: search.title)
@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
@pytest.mark.parametrize("shape", ["one for all", "one per example", "one per channel"])
def test_a_mask_is_respected_to_the_bit(model: Model, data: Data, norm: Norm, shape: str, search: Search) -> None:
    generator = torch.Generator().manual_seed(2)
    size = {"one for all": (4, 4), "one per example": (50, 1, 4, 4), "one per channel": (2, 1, 1)}[shape]
    mask = torch.rand(size, generator=generator) < 0.5
    if shape == "one per channel":
        mask = torch.tensor([True, False]).view(2, 1, 1)
    ball = Ball(norm, {"linf": 0.3, "l2": 1.0, "l1": 3.0}[norm], model.bounds)
    found = carry_out(model, data, [search], attack="it", ball=ball, mask=mask, seed=0)
    changed = found.adversarial != data.x
    assert int(found.success.sum()) > 5
    assert not changed[~mask.expand(data.x.shape)].any()
    assert changed[mask.expand(data.x.shape)].any()


def test_a_mask_that_allows_nothing_solves_nothing(model: Model, data: Data) -> None:
    ball, nothing = Ball("linf", 0.5, model.bounds), torch.zeros(1, dtype=torch.bool)
    found = carry_out(model, data, SEARCHES, attack="it", ball=ball, mask=nothing, seed=0)
    assert not found.success.any()
    assert found.health == ("nothing may be changed in 50 of 50 examples: they stand by the mask alone",)
    assert (found.queries, found.gradients) == (0, 0)


def test_a_wrong_mask_is_refused(model: Model, data: Data) -> None:
    ball = Ball("linf", 0.5, model.bounds)
    with pytest.raises(InputError, match=r"must be a boolean tensor, True where the input may change. Got torch.float"):
        carry_out(model, data, [FGSM(radius=0.5)], attack="it", ball=ball, mask=torch.ones(4, 4), seed=0)
    with pytest.raises(InputError, match=r"must broadcast to the inputs' shape \(50, 2, 4, 4\). Got \(3, 4\)"):
        carry_out(
            model, data, [FGSM(radius=0.5)], attack="it", ball=ball, mask=torch.ones(3, 4, dtype=torch.bool), seed=0
        )


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: search.title)
def test_how_examples_are_divided_into_batches_does_not_matter(model: Model, data: Data, search: Search) -> None:
    ball = Ball("l2", 0.5, model.bounds)
    whole, parts = (
        carry_out(model, data, [search], attack="it", ball=ball, batch_size=size, seed=0) for size in (50, 7)
    )
    assert torch.equal(whole.success, parts.success)
    torch.testing.assert_close(whole.adversarial, parts.adversarial, rtol=0, atol=1e-4)
    with pytest.raises(InputError, match="'batch_size' parameter of it must be at least 1"):
        carry_out(model, data, [search], attack="it", ball=ball, batch_size=0, seed=0)


def test_a_later_search_is_asked_only_about_what_stands() -> None:
    model = Model(nn.Linear(1, 2, bias=False), input_shape=(1,), classes=2, bounds=None)
    with torch.no_grad():
        model.module.weight.copy_(torch.tensor([[1.0], [-1.0]]))  # type: ignore[operator]
    data = Data(torch.tensor([[1.0], [1.0], [1.0], [1.0], [-1.0]]), torch.zeros(5, dtype=torch.int64), model.classes)
    first = Scripted("first", torch.tensor([[-1.0], [1.0], [2.0], [-9.0], [0.0]]))
    second = Scripted("second", torch.tensor([[1.0], [-0.5], [float("nan")], [-1.0], [0.0]]))
    idle = Scripted("idle", torch.zeros(5, 1))
    found = carry_out(model, data, [first, second, first], attack="it", ball=Ball("l2", 3.0), batch_size=2, seed=0)
    # The last example is wrong before anybody asks. The far answer is drawn into the ball, where it still counts.
    assert first.asked == [[0, 1], [2, 3], [2]]
    assert second.asked == [[1, 2]]
    assert found.solved_by == {"first": 2, "second": 1}
    assert found.adversarial.flatten().tolist() == [-1.0, -0.5, 1.0, -2.0, -1.0]
    assert found.success.tolist() == [True, True, False, True, True]
    assert found.success_rate is not None
    assert (found.success_rate.value, found.success_rate.n) == (0.75, 4)
    all_fall = Scripted("all", -torch.ones(5, 1))
    carry_out(model, data, [all_fall, idle], attack="it", ball=Ball("l2", 3.0), seed=0)
    assert idle.asked == []


def test_what_gradients_miss_and_guesses_find_is_suspicious(model: Model, data: Data) -> None:
    class Coarse(nn.Module):
        """Sees its input in steps of a fifth, with a gradient that leads away from them."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            logits = model.module(((5 * x).round() / 5).detach())
            assert isinstance(logits, torch.Tensor)
            return logits + 1e-3 * torch.stack([x.flatten(1).sum(dim=1)] * 3, dim=1) * torch.tensor([1.0, 1.1, 0.9])

    coarse = Model(Coarse(), input_shape=(2, 4, 4), classes=model.classes)
    seen = Data(data.x, coarse.predict(data.x), data.classes)
    ball = Ball("linf", 0.2, coarse.bounds)
    found = carry_out(coarse, seen, [PGD(radius=0.2, steps=10), Guess()], attack="it", ball=ball, seed=0)
    assert found.solved_by["Guess"] > 5
    assert any(f"{MASKED}: Guess, which sees no gradient, solved" in note for note in found.health)
    others: list[list[Search]] = [
        [PGD(radius=0.2, steps=10), PGD(radius=0.2, steps=10)],
        [Guess(), PGD(radius=0.2, steps=10)],
    ]  # nobody blind comes after a gradient
    for searches in others:
        found = carry_out(coarse, seen, searches, attack="it", ball=ball, seed=0)
        assert not any("which sees no gradient" in note for note in found.health)
    plain = carry_out(
        model, data, [APGD(radius=0.1, steps=50), Guess()], attack="it", ball=Ball("linf", 0.1, model.bounds), seed=0
    )
    assert not any("which sees no gradient" in note for note in plain.health)


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_the_accuracy_at_a_radius_counts_what_stands_there(norm: Norm) -> None:
    model = Model(nn.Linear(2, 2), input_shape=(2,), classes=2, bounds=None)
    x = torch.randn(100, 2, generator=torch.Generator().manual_seed(0))
    data = Data(x, torch.randint(0, 2, (100,), generator=torch.Generator().manual_seed(1)), model.classes)
    moved = x + torch.randn(100, 2, generator=torch.Generator().manual_seed(2))
    found = carry_out(model, data, [Scripted("it", moved)], attack="it", ball=Ball(norm, None), seed=0)
    order = {"linf": torch.inf, "l2": 2, "l1": 1}[norm]
    for radius in (0.0, 0.5, 1.0, 2.0, 10.0):
        standing = 0
        for example, label, point in zip(x, data.y, moved, strict=True):
            right = int(model.predict(example[None])) == int(label)
            lost = int(model.predict(point[None])) != int(label)
            near = float(torch.linalg.vector_norm(point.double() - example.double(), ord=order)) <= radius
            standing += right and not (lost and near)
        assert found.accuracy_at(radius).value == standing / 100
    assert found.accuracy_at(10.0).value == found.robust_accuracy.value
    assert found.accuracy_at(0.0).value == found.clean_accuracy.value


def test_passes_are_counted(model: Model, data: Data) -> None:
    class Counting(nn.Module):
        seen = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            Counting.seen += len(x)
            logits = model.module(x)
            assert isinstance(logits, torch.Tensor)
            return logits

    counting = Model(Counting(), input_shape=(2, 4, 4), classes=model.classes)

    def run(*searches: Search) -> Attacked:
        Counting.seen = 0
        return carry_out(counting, data, searches, attack="it", ball=Ball("linf", 0.05, model.bounds), seed=0)

    one = run(FGSM(radius=0.5))
    # Once for the answers before, 32 to see whether they are random, once to verify, and what was won once more.
    won = int(one.success.sum())
    assert (one.queries, one.gradients, Counting.seen) == (50, 50, 50 + 50 + 32 + 50 + won)
    both = run(FGSM(radius=0.5), PGD(radius=0.05, steps=4))
    assert both.queries == both.gradients
    assert Counting.seen == 50 + 32 + both.queries + 50 + int((~one.success).sum()) + int(both.success.sum())


def test_a_view_gives_no_more_than_the_search_asked_for(model: Model, data: Data) -> None:
    class Nosy(Scripted):
        def search(self, case: Case[Labels]) -> torch.Tensor:
            assert not isinstance(case.view, Scores)
            assert not isinstance(case.view, Weights)
            return super().search(case)

    carry_out(model, data, [Nosy("nosy", data.x)], attack="it", ball=Ball("l2", 1.0, model.bounds), seed=0)


def test_progress_tells_how_many_of_how_many_stand_first_of_all(model: Model, data: Data) -> None:
    notes: list[str] = []

    class Notes:
        def opened(self, task: progress.Task) -> None: ...
        def changed(self, task: progress.Task) -> None:
            notes.append(task.note)

        def closed(self, task: progress.Task) -> None: ...

    with progress.watch(Notes()):
        found = PGD(**SHORT)(model, data, seed=0)
    standing = int((found.after == data.y).sum())
    assert notes[-1].startswith(f"{standing} of {len(data)} stand, ")

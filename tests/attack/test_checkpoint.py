"""An attack that was stopped goes on where it was, and ends with the same bits."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.attack import Attacked, Case
from modelkeep.attack.case import Search
from modelkeep.attack.checkpoint import resume_from
from modelkeep.attack.frame import carry_out
from modelkeep.attack.gradient.pgd import PGD
from modelkeep.core.access import Labels
from modelkeep.core.errors import CheckpointError
from modelkeep.core.norms import Ball


class Noise:
    """A blind search: the best of a few random points. It counts its calls, and stops at one of them."""

    title = "noise"
    sees = Labels

    def __init__(self, stop_at: int | None = None) -> None:
        self.stop_at, self.calls = stop_at, list[int]()

    def __repr__(self) -> str:
        return "Noise()"

    def search(self, case: Case[Labels]) -> torch.Tensor:
        self.calls.append(len(case))
        if len(self.calls) == self.stop_at:
            raise KeyboardInterrupt
        x = case.ball.random_point(case.original, case.generator)
        for _ in range(3):
            again = case.ball.random_point(case.original, case.generator)
            x = torch.where(case.answered(case.view.labels(x))[:, None], x, again)
        return x


class Dropped(nn.Module):
    """A model that answers at random: its draws, too, must go on where they were."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.linear(x)
        return logits + 0.3 * torch.randn_like(logits)


@pytest.fixture(params=["steady", "random"])
def model(request: pytest.FixtureRequest) -> Model:
    torch.manual_seed(0)
    module: nn.Module = nn.Linear(6, 3) if request.param == "steady" else Dropped()
    return Model(module, input_shape=(6,), classes=3)


def attacked(model: Model, noise: Noise) -> Attacked:
    x = torch.rand(50, 6, generator=torch.Generator().manual_seed(1))
    with torch.random.fork_rng():
        torch.manual_seed(3)
        data = Data(x, model.predict(x), model.classes)
    searches: list[Search] = [PGD(radius=0.1, steps=3), noise, noise]
    return carry_out(model, data, searches, attack="both", ball=Ball("linf", 0.1), batch_size=4, seed=0)


def without_time(found: Attacked) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(found.to_json())
    del body["provenance"]["seconds"]
    return body


@pytest.mark.parametrize("stop_at", [1, 2, 4])
def test_it_goes_on_where_it_was_stopped(model: Model, tmp_path: Path, stop_at: int) -> None:
    whole = attacked(model, every := Noise())
    with resume_from(tmp_path):
        with pytest.raises(KeyboardInterrupt):
            attacked(model, Noise(stop_at))
        resumed = attacked(model, rest := Noise())
    assert without_time(resumed) == without_time(whole)
    assert len(rest.calls) == len(every.calls) - stop_at + 1
    with resume_from(tmp_path):
        again = attacked(model, none := Noise())
    assert none.calls == []
    assert without_time(again) == without_time(whole)


def test_without_a_folder_nothing_is_written(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    attacked(model, Noise())
    assert list(tmp_path.iterdir()) == []


def test_other_settings_are_another_attack(tmp_path: Path) -> None:
    model = Model(nn.Linear(6, 3), input_shape=(6,), classes=3)
    data = Data(torch.rand(4, 6), torch.zeros(4, dtype=torch.int64), model.classes)
    with resume_from(tmp_path):
        for seed, radius, steps in ((0, 0.1, 2), (1, 0.1, 2), (0, 0.2, 2), (0, 0.1, 3)):
            carry_out(model, data, [PGD(radius=0.1, steps=steps)], attack="PGD", ball=Ball("linf", radius), seed=seed)
    assert len(list(tmp_path.glob("*.attack"))) == 4


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    model = Model(nn.Linear(6, 3), input_shape=(6,), classes=3)
    data = Data(torch.rand(4, 6), torch.zeros(4, dtype=torch.int64), model.classes)

    def run() -> Attacked:
        return carry_out(model, data, [PGD(radius=0.1, steps=2)], attack="PGD", ball=Ball("linf", 0.1), seed=0)

    with resume_from(tmp_path):
        run()
        (file,) = tmp_path.glob("*.attack")
        file.write_bytes(file.read_bytes()[:-5])
        with pytest.raises(CheckpointError, match=r"unfinished attack .* is damaged .* to attack from the start"):
            run()


@dataclass(frozen=True)
class Moved:
    """A search whose `repr` hides what it is."""

    by: object = field(repr=False)
    title: ClassVar[str] = "moved"
    sees: ClassVar[type[Labels]] = Labels

    def search(self, case: Case[Labels]) -> torch.Tensor:
        return case.original


def small(value: float) -> Data:
    return Data(torch.full((4, 6), value), torch.zeros(4, dtype=torch.int64), ("a", "b", "c"))


def constant(value: float) -> Model:
    module = nn.Linear(6, 3)
    nn.init.constant_(module.weight, value)
    nn.init.zeros_(module.bias)
    return Model(module, input_shape=(6,), classes=3)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (torch.zeros(5000), torch.eye(5000)[2500]),  # their texts are the same: 0, 0, 0, …, 0, 0, 0
        (small(0.0), small(1.0)),
        (constant(0.0), constant(1.0)),
        ([{"inner": Moved(1)}], [{"inner": Moved(2)}]),
        (torch.relu, torch.tanh),
        (1, "1"),
    ],
    ids=["tensor", "data", "model", "nested", "function", "type"],
)
def test_what_the_text_of_a_search_hides_is_another_attack_too(one: object, other: object, tmp_path: Path) -> None:
    assert repr(Moved(one)) == repr(Moved(other))
    model, data = constant(1.0), small(0.5)
    with resume_from(tmp_path):
        for by in (one, one, other):
            carry_out(model, data, [Moved(by)], attack="moved", ball=Ball("linf", 0.1), seed=0)
    assert len(list(tmp_path.glob("*.attack"))) == 2


def test_where_nothing_can_be_written_it_fails_before_the_first_batch(model: Model, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    noise = Noise()
    with (
        resume_from(tmp_path / "link"),
        pytest.raises(CheckpointError, match=r"unfinished attack .* cannot be written"),
    ):
        carry_out(model, small(0.5), [noise], attack="noise", ball=Ball("linf", 0.1), seed=0)
    assert noise.calls == []


@dataclass(frozen=True)
class FullDisk:
    """A search that does nothing, and after which nothing more can be written."""

    folder: Path
    title: ClassVar[str] = "full disk"
    sees: ClassVar[type[Labels]] = Labels

    def search(self, case: Case[Labels]) -> torch.Tensor:
        shutil.rmtree(self.folder)
        self.folder.touch()
        return case.original


def test_what_cannot_be_kept_is_not_lost(tmp_path: Path) -> None:
    model, data = constant(1.0), small(0.5)

    def run() -> Attacked:
        return carry_out(model, data, [FullDisk(tmp_path / "kept")], attack="none", ball=Ball("linf", 0.1), seed=0)

    with (
        resume_from(tmp_path / "kept"),
        pytest.warns(UserWarning, match=r"unfinished attack .* cannot be written: .*stopped"),
    ):
        assert run().robust_accuracy.value == 1

"""Model comparison: two models on the same examples, judged by McNemar's exact test on those where they differ."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch

from modelkeep.audit.comparison import ChangeTest, mcnemar
from modelkeep.core.errors import InputError
from modelkeep.core.results import Estimate
from modelkeep.report.measure import percent, points
from modelkeep.web.rasters import THUMB, Raster, is_picture, make_raster
from modelkeep.web.workspace import Opened

MOST_EXAMPLES = 2000
_MOST_SHOWN = 60  # examples on which the two differ


@dataclass(frozen=True)
class Differing:
    """An example on which one is right and the other wrong."""

    index: int
    label: str
    first: str
    second: str
    first_right: bool
    picture: Raster | None


@dataclass(frozen=True)
class ModelComparison:
    """Two models on `n` examples: their accuracies, how often they agree, and the test of the difference."""

    first_name: str
    second_name: str
    first: Estimate
    second: Estimate
    agreement: Estimate
    both_right: int
    both_wrong: int
    test: ChangeTest
    differing: tuple[Differing, ...]
    seed: int

    @property
    def verdict(self) -> str:
        """What follows, in one line."""
        test = self.test
        told = f"{points(abs(test.gain))} points on the same {test.n} examples (p = {test.p_value:.2g})"
        if test.gain == 0:
            return f"Both are right equally often on the same {test.n} examples; that is no proof that they are alike."
        better, other = (self.second_name, self.first_name) if test.gain > 0 else (self.first_name, self.second_name)
        if not test.supported:
            return f"{better} is right more often than {other}, but that can be chance: {told}."
        return f"{better} is right more often than {other}: {told}."

    def tell(self) -> dict[str, Any]:
        """All of it as JSON."""
        shares = {name: _tell(getattr(self, name)) for name in ("first", "second", "agreement")}
        lost, won = self.test.lost or 0, self.test.won or 0
        return {
            "verdict": self.verdict,
            "level": "unclear" if not self.test.supported else "low",
            "names": [self.first_name, self.second_name],
            **shares,
            "counts": {"both": self.both_right, "first": lost, "second": won, "neither": self.both_wrong},
            "p": self.test.p_value,
            "n": self.test.n,
            "seed": self.seed,
            "method": self.test.method,
            "differing": [asdict(each) for each in self.differing],
            "not_shown": lost + won - len(self.differing),
        }


def compare_models(first: Opened, second: Opened, seed: int = 0) -> ModelComparison:
    """Both models on the same examples, of many drawn by the seed."""
    require_same_examples(first, second)
    order = torch.randperm(len(first.data), generator=torch.Generator().manual_seed(seed))[:MOST_EXAMPLES]
    rows = order.sort().values
    answers = [_answers(each, rows) for each in (first, second)]
    labels = first.data.y[rows]
    right = [answer == labels for answer in answers]
    n = len(rows)
    marks = ["".join("01"[each] for each in well.tolist()) for well in right]
    differ = (right[0] != right[1]).nonzero().flatten().tolist()
    names = [each.sources.model for each in (first, second)]
    return ModelComparison(
        first_name=names[0],
        second_name=names[1],
        first=Estimate.rate(int(right[0].sum()), n),
        second=Estimate.rate(int(right[1].sum()), n),
        agreement=Estimate.rate(int((answers[0] == answers[1]).sum()), n),
        both_right=int((right[0] & right[1]).sum()),
        both_wrong=int((~right[0] & ~right[1]).sum()),
        test=mcnemar(*marks),
        differing=tuple(_show(first, int(rows[i]), answers, i, bool(right[0][i])) for i in differ[:_MOST_SHOWN]),
        seed=seed,
    )


def require_same_examples(first: Opened, second: Opened) -> None:
    """Refuse models that were not given the same examples, with the same classes."""
    one, other = first.data, second.data
    if len(one) != len(other) or not torch.equal(one.y, other.y):
        raise InputError(
            f"The two must be open with the same examples. '{first.sources.model}' has {len(one)} of "
            f"'{first.sources.data}', '{second.sources.model}' {len(other)} of '{second.sources.data}'."
        )
    if first.model.classes != second.model.classes:
        raise InputError(f"'{first.sources.model}' and '{second.sources.model}' have other classes.")


def _answers(opened: Opened, rows: torch.Tensor) -> torch.Tensor:
    with opened.lock:
        opened.model.require_fit(opened.data)
        return torch.cat([opened.model.predict(opened.data.x[part]).cpu() for part in torch.split(rows, 256)])


def _show(opened: Opened, index: int, answers: list[torch.Tensor], place: int, first_right: bool) -> Differing:
    data, classes = opened.data, opened.model.classes
    picture = make_raster(data.x[index], data.bounds, THUMB) if is_picture(data.input_shape) else None
    first, second = (classes[int(answer[place])] for answer in answers)
    return Differing(index, data.classes[int(data.y[index])], first, second, first_right, picture)


def _tell(share: Estimate) -> dict[str, Any]:
    interval = f"{percent(share.low)} to {percent(share.high)}, {share.n} examples"
    return {
        "value": share.value,
        "low": share.low,
        "high": share.high,
        "text": percent(share.value),
        "interval": interval,
    }

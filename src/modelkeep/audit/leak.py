"""Does the data that it is judged by hold its training data?"""

from __future__ import annotations

import torch

from modelkeep.audit.cost import Cost
from modelkeep.audit.evidence import SHOWN, show
from modelkeep.audit.findings import Finding, Section
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate
from modelkeep.report.measure import Measure, percent

TITLE = "Was it judged by what it learned?"
LEAD = (
    "A row of the test data that is also in the training data says nothing about new inputs. Rows are compared as they "
    "are, and by their nearest training row: nearly the same is nearer than almost all test rows are to each other."
)
MOST_TEST, MOST_TRAIN = 2_000, 20_000
"""Rows of each that are looked at, drawn by the seed."""
NEAR = 0.1
"""Nearly the same: within this share of the usual distance between a test row and the nearest other test row."""
MATTERS, GRAVE = 0.01, 0.1
"""Shares of the test rows from which on it matters, and is grave."""


@declare("check", "leak", access="labels")
class CheckLeak:
    """Rows of the data that are in the training data, exactly or nearly."""

    train: Data | None = setting("The training data.", default=None, repr=False)

    def cost(self, model: Model, data: Data) -> Cost:
        """The distances of all pairs."""
        rows = min(MOST_TRAIN, len(self.train)) if self.train is not None else 0
        return Cost(0, seconds=2e-10 * min(MOST_TEST, len(data)) * rows * data.x[:1].numel() + 0.1)

    def obstacle(self, model: Model, data: Data) -> str:
        """It needs the training data."""
        return "It needs the training data: --train TRAIN." if self.train is None else ""

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Section:
        """Compare the data with the training data; the model is not asked."""
        if self.train is None:
            raise InputError("CheckLeak needs the training data: CheckLeak(train=…).")
        train, all_rows = self.train.sample(min(MOST_TRAIN, len(self.train)), seed), len(data)
        data = data.sample(min(MOST_TEST, len(data)), seed).load()
        test, learned = data.x.flatten(1), train.rows(list(range(len(train)))).flatten(1)
        distance, nearest = _nearest(test, learned)
        own, _ = _nearest(test, test, but_itself=True)
        exact = (test == learned[nearest]).all(dim=1)
        near = ~exact & (distance <= NEAR * own.median())
        unseen = [
            f"{len(part)} of {whole} rows of the {name} data were compared."
            for name, part, whole in (("test", data, all_rows), ("training", train, len(self.train)))
            if len(part) < whole
        ]
        shown = torch.nonzero(exact | near).flatten()[: SHOWN // 2]
        finding = judge(Estimate.rate(int((exact | near).sum()), len(data)), int(exact.sum()), " ".join(unseen))
        pairs = torch.cat([data.x[shown], train.rows(nearest[shown].tolist())])
        titles = [*(f"test: {data.classes[i]}" for i in data.y[shown])]
        titles += [f"training: {train.classes[i]}" for i in train.y[nearest[shown]]]
        caption = "Rows of the test data (above) and the training rows that they equal or nearly equal (below)."
        pictures = show(pairs, titles, "Test rows and their training rows", caption, data.bounds, max(1, len(shown)))
        return Section(TITLE, LEAD, (finding.value,) if finding.value else (), (finding,), pictures)


def _nearest(x: torch.Tensor, others: torch.Tensor, but_itself: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """The distance of each row to the nearest of the others, and which one that is."""
    found, which = [], []
    for start in range(0, len(x), 256):
        # As products it would be faster, and a distance of 0 would not be one: that is what is looked for.
        apart = torch.cdist(x[start : start + 256], others, compute_mode="donot_use_mm_for_euclid_dist")
        if but_itself:
            apart[torch.arange(len(apart)), torch.arange(start, start + len(apart))] = torch.inf
        least = apart.min(dim=1)
        found.append(least.values)
        which.append(least.indices)
    return torch.cat(found), torch.cat(which)


def judge(shared: Estimate, exact: int, partial: str) -> Finding:
    """What the share of test rows that are training rows means."""
    count = round(shared.value * shared.n)
    measured = (
        f"{count} of {shared.n} test rows ({percent(shared.value)}, at most {percent(shared.high)}) are in the "
        f"training data: {exact} exactly, {count - exact} nearly. {partial}"
    ).strip()
    value = Measure("test rows that are in the training data", shared)
    if shared.low >= MATTERS:
        return Finding(
            id="leak.training-data-in-test",
            severity="high" if shared.low >= GRAVE else "medium",
            title="The test data holds training data",
            measured=measured,
            meaning="On these rows the model is judged by what it learned: how right it is on new inputs is not known.",
            remedy="Remove these rows from one of both sets, and measure again.",
            weight=shared.value,
            value=value,
        )
    if count and exact:
        return Finding(
            id="leak.a-few-rows",
            severity="low",
            title="A few test rows are in the training data",
            measured=measured,
            meaning="Too few to change the figures much. Simple records may repeat by chance.",
            remedy="Look at them, and remove them if they are the same record.",
            weight=shared.value,
            value=value,
        )
    return Finding(
        id="leak.none-found",
        severity="good",
        title="No test row is in the training data",
        measured=measured,
        meaning="Copies that were turned, cut or coloured would not be seen.",
        remedy="Nothing.",
        value=value,
        partial=partial,
    )

"""Can members of its training data be found?"""

from __future__ import annotations

from collections.abc import Sequence

from modelkeep.audit.cost import Cost
from modelkeep.audit.findings import Finding, Section, Severity
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.guarantee import Guarantee
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.privacy import Knowledge, Loss, Membership, MembershipAttack, ModifiedEntropy, Quantile
from modelkeep.privacy.membership.result import choose_strongest, draw_roc
from modelkeep.report.guarantee import tell_guarantee
from modelkeep.report.measure import Measure, percent
from modelkeep.report.picture import Picture

TITLE = "Does it give its training data away?"
LEAD = (
    "Whoever has a record and the model's answer may ask: was it in the training data? Three attacks that see only "
    "probabilities and train no network like the model: loss, modified entropy and quantile regression. Half of the "
    "other records are the attacker's own. Attacks with shadow models find more: `modelkeep privacy … --epochs`."
)
COMMAND = "modelkeep privacy MODEL --members TRAIN --non-members DATA"
MOST = 10_000
"""Members and other records that are looked at; more make the intervals no narrower than anyone needs."""
_ATTACKS = 3
LEAST_OTHERS = 20
"""Other records below which no attack is run: half of them are the attacker's."""
MATTERS, DOUBT = 0.05, 0.1
"""An area this far above 1/2 matters; where it may be above by more than the second, nothing good is claimed."""


@declare("check", "membership", access="scores", paper="Yeom2018; Song2021; Bertran2023")
class CheckMembership:
    """Membership attacks that need no network like the model, with the training data as members."""

    train: Data | None = setting("The training data; the data must hold none of it.", default=None, repr=False)

    def cost(self, model: Model, data: Data) -> Cost:
        """Each attack asks for all records once; the regression has a small network of its own."""
        asked = min(MOST, len(data)) + (0 if self.train is None else min(MOST, len(self.train)))
        return Cost(_ATTACKS * asked, instead=f"`{COMMAND}` runs it alone.")

    def obstacle(self, model: Model, data: Data) -> str:
        """It needs members, and other records that the attacker and the measurement share."""
        if self.train is None:
            return "It needs the training data: --train TRAIN."
        if len(data) < LEAST_OTHERS:
            return f"It needs {LEAST_OTHERS} or more records that the model has not seen, and has {len(data)}."
        return ""

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Section:
        """Attack with the training data as members and `data` as others."""
        if self.train is None:
            raise InputError("CheckMembership needs the training data: CheckMembership(train=…).")
        model.require_fit(self.train)
        members = self.train.sample(min(MOST, len(self.train)), seed)
        non_members, held = data.sample(min(MOST, len(data)), seed).split(0.5, 0.5, seed=seed)
        attacks: list[MembershipAttack] = [Loss(), ModifiedEntropy()]
        if data.x.is_floating_point() and model.nest is None:  # the regression takes numbers, not token ids
            attacks.append(Quantile())
        found = [
            attack(model, members, non_members, Knowledge(held), seed=seed).among(len(attacks)) for attack in attacks
        ]
        picture = Picture.of(
            draw_roc(found),
            "True positive rate against false positive rate, both logarithmic",
            "How many members each attack finds, for each share of other records that it accuses wrongly.",
        )
        measure = Measure("a member scores above another record (chance: 50 %)", choose_strongest(found).auc)
        return Section(TITLE, LEAD, (measure,), (judge(found, seed, model.card.guarantee),), (picture,))


def judge(found: Sequence[Membership], seed: int, guarantee: Guarantee | None = None) -> Finding:
    """What the attacks show together; too few records are never good news."""
    best = choose_strongest(found)
    said = f"{_measured(found)} The attacker sees probabilities and has {len(best.non_members)} records of his own."
    said += tell_guarantee(guarantee, found)
    again = f"`{COMMAND} --seed {seed}` shows the most exposed records."
    if best.leaks:
        return Finding(
            id="membership.leaks",
            severity=_severity(best),
            title="It gives members of its training data away",
            measured=said,
            meaning="Whoever holds a record can tell, better than by chance, whether the model learned it.",
            remedy=f"{again} Train with differential privacy (`modelkeep train-privately`), stop earlier, regularise, "
            "or give labels in place of probabilities.",
            weight=best.auc.value - 0.5,
        )
    if max(each.auc.high for each in found) > 0.5 + DOUBT:
        return Finding(
            id="membership.unclear",
            severity="unclear",
            title="Too few records to say whether members can be found",
            measured=said,
            meaning="No attack found a leak, but one as large as the intervals would not have been seen.",
            remedy=f"Give more records that the model has not seen. {again}",
        )
    return Finding(
        id="membership.not-found",
        severity="good",
        title="Simple attacks do not find its members",
        measured=said,
        meaning="That is no proof: attacks that train networks like the model find more.",
        remedy=f"`{COMMAND} --epochs N` and the other settings of the training run them.",
    )


def _severity(best: Membership) -> Severity:
    """High where members are found at hardly any false accusations, or by far in general."""
    if any(point.claimed for point in best.points) or best.auc.low >= 0.5 + 2 * DOUBT:
        return "high"
    return "medium" if best.auc.low >= 0.5 + MATTERS or best.advantage.low >= MATTERS else "low"


def _measured(found: Sequence[Membership]) -> str:
    best = choose_strongest(found)
    told = (
        f"By {best.attack}, the strongest of {len(found)}, a member scores above another record in "
        f"{percent(best.auc.value)} of all pairs ({percent(best.auc.low)} to {percent(best.auc.high)}; chance is 50 %)."
    )
    claimed = [point for point in best.points if point.claimed]
    if claimed:
        rate, share = claimed[0].false_positive_rate, claimed[0].found
        told += f" At {percent(rate)} false accusations it finds {percent(share.value)} of the members."
    lacking = [point for point in best.points if not point.enough]
    if lacking:
        rates = " and ".join(percent(point.false_positive_rate) for point in lacking)
        told += f" With {lacking[0].non_members} other records nothing can be said at {rates} false accusations."
    return told

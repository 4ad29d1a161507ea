"""Clean answers: which settings let predictions leave as they are, said before a query is answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelkeep.core.access import Scores
from modelkeep.core.data import Data
from modelkeep.guard.defences.modelguard_s import ModelGuardS
from modelkeep.guard.defences.no_defence import NoDefence
from modelkeep.guard.grid import budget, distortion, snap
from modelkeep.zoo import datasets

if TYPE_CHECKING:
    from modelkeep.guard.gateway.assembly import Plan
    from modelkeep.guard.gateway.config import Config

_TRIED = 1000  # rows of the owner's data that the defence is tried on


def warn_of_clean_answers(plan: Plan) -> tuple[str, ...]:
    """A sentence for each way in which clean predictions would leave; where the owner's data are named, how many."""
    defence = plan.policy.defence
    if isinstance(defence, NoDefence):
        return ("There is no defence: every answer is the clean prediction. Choose one in [defence].",)
    if budget(defence.epsilon) == 0:
        return ("The budget is 0: every answer is the clean prediction. Raise epsilon in [defence].",)
    told = _share_of_owners_data(plan)
    if isinstance(defence, ModelGuardS) and defence.secret is None:
        return (
            "There is no secret: the first query of each new centroid is answered with its clean prediction, and with "
            f"many classes most queries are.{told} Set secret_file in [defence]; make one with: "
            "(umask 077; openssl rand -hex 32 > secret)",
        )
    return (f"Some answers are the clean prediction.{told}",) if told else ()


def owners_data(config: Config) -> Data | None:
    """The data that seed the lists, else those that queries are compared with."""
    named = getattr(config.defence, "seed_data", None) or config.detection.data
    return None if named is None else open_owners_data(config, named)


def open_owners_data(config: Config, named: str) -> Data:
    """A data set or a file that the settings name; relative paths start in their folder."""
    local = config.at(named)
    return datasets.open(str(local) if local.exists() else named, part="train")


def _share_of_owners_data(plan: Plan) -> str:
    """What the defence does to the owner's own examples, where it lets some of them through; else nothing."""
    own = owners_data(plan.config)
    if plan.model is None or own is None:
        return ""
    rows = own.x[:_TRIED]
    predictions = snap(Scores(plan.model).probs(rows).double().cpu().numpy())
    defence = plan.policy.defence
    inputs = rows if defence.needs_inputs else None
    answers = defence(predictions, defence.initial(plan.policy.classes), inputs)
    clean = int((distortion(answers, predictions.units) <= plan.policy.slack).sum())
    share = clean / len(rows)
    return f" Of the first {len(rows):,} examples of '{own.name}' {clean:,} would be ({share:.1%})." if clean else ""

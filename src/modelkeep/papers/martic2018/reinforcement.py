"""Findings 3 and 6: agents lose a layer and learn again; lower layers, and the experience that they may keep."""

from __future__ import annotations

from collections.abc import Sequence

from modelkeep.completion.hardness import Hardness, measure_hardness
from modelkeep.core.method import declare
from modelkeep.core.results import Estimate
from modelkeep.papers.martic2018.agent_trials import (
    PARTS,
    better_than_chance,
    original_trials,
    retraining_trials,
    retrainings,
)
from modelkeep.papers.martic2018.paper_figures import A3C, IMPALA, RAINBOW, Table
from modelkeep.papers.martic2018.tables import CompletionTable, cells, report_study
from modelkeep.papers.result import Claim, above
from modelkeep.papers.study import PaperStudy, Size
from modelkeep.papers.table import Cell
from modelkeep.rl.tasks import AgentName
from modelkeep.study.record import Record
from modelkeep.study.study import StudyResult
from modelkeep.study.trials import Trial

ALPHAS = (0.5, 0.8, 1.0)
PRINTED: dict[AgentName, Table] = {"A2C": A3C, "Rainbow": RAINBOW, "IMPALA": IMPALA}
PROCEDURES = ("T1", "T2")
_OTHERS = ("T3", "T4 glorot normal", "T4 msra", "T4 caffe")


def layer_trials(size: Size, seed: int) -> Sequence[Trial]:
    """A2C and, from medium on, IMPALA: every layer by T1 and T2."""
    return [
        *original_trials("A2C", size, seed),
        *retraining_trials("A2C", size, seed, PROCEDURES),
        *original_trials("IMPALA", size, seed),
        *retraining_trials("IMPALA", size, seed, PROCEDURES),
    ]


def _other_trials(size: Size, seed: int) -> Sequence[Trial]:
    """T3 and T4, which the paper tried on A3C alone."""
    originals = original_trials("A2C", size, seed)
    return [*originals, *retraining_trials("A2C", size, seed, ("T1", "T2", *_OTHERS))]


def experience_trials(size: Size, seed: int) -> Sequence[Trial]:
    """Rainbow with the replay buffer kept and reset."""
    procedures = ("T1",) if size == "small" else PROCEDURES
    return [
        *original_trials("Rainbow", size, seed),
        *retraining_trials("Rainbow", size, seed, procedures, replay=(True, False)),
    ]


def measure_agent(records: Sequence[Record], agent: AgentName) -> Hardness | None:
    """The hardness of an agent's parts, over the games that count; None where nothing is done."""
    found = retrainings(records, agent)
    return measure_hardness(found, alphas=ALPHAS) if found else None


def rows(records: Sequence[Record], agent: AgentName) -> tuple[Cell, ...]:
    """Ours beside the paper's, a row per layer and procedure and a column per α."""
    found = measure_agent(records, agent)
    return () if found is None else cells(agent, found, PRINTED[agent])


def name_excluded_games(records: Sequence[Record]) -> list[Claim]:
    """Which games do not count because a trained agent is no better than chance, by name."""
    told = []
    for agent in PRINTED:
        verdicts = better_than_chance(records, agent)
        poor = [game for game, better in verdicts.items() if not better]
        if verdicts:
            found = f"left out: {', '.join(poor)}." if poor else f"all {len(verdicts)} count."
            told.append(Claim(f"Games count where every trained agent ({agent}) beats chance.", found, not poor))
    return told


def lower_layers(records: Sequence[Record]) -> list[Claim]:
    """Finding 3."""
    found = measure_agent(records, "A2C")
    says = "3. For A3C lower layers are often harder to complete than upper layers."
    return [
        above(
            says,
            f"A2C, T1, α = {alpha:g}, Conv 1 and P",
            _mean(found, "Conv 1", "T1", alpha),
            _mean(found, "P", "T1", alpha),
        )
        for alpha in ALPHAS
    ]


def _mean(found: Hardness | None, part: str, procedure: str, alpha: float) -> Estimate | None:
    """The mean of a cell; None where its trials are not all done."""
    cells = () if found is None else found.cells
    return next((c.mean for c in cells if (c.part, c.procedure, c.alpha) == (part, procedure, alpha)), None)


def right_experience(records: Sequence[Record]) -> list[Claim]:
    """Finding 6."""
    found = measure_agent(records, "Rainbow")
    says = "6. When completing RL models access to the right experience matters."
    parts = [part.name for part in PARTS["Rainbow"]] if found is None else found.parts
    return [
        above(
            says,
            f"Rainbow, T1, {part}, α = {alpha:g}, replay reset and kept",
            _mean(found, part, "T1 reset", alpha),
            _mean(found, part, "T1 kept", alpha),
        )
        for part in parts
        for alpha in ALPHAS
    ]


def _best_procedure(records: Sequence[Record]) -> Claim:
    """Finding 1 for agents: T1 or T2, and whether T3 and T4 are any better."""
    says = "1. For A3C T2 is the faster up to the second convolution, T1 after it (tables C.3); T3 and T4 gain nothing."
    found = measure_agent(records, "A2C")
    if found is None:
        return Claim(says, "trials are missing.", None)
    told = []
    for part in found.parts:
        bounds = [found.bound(part, alpha) for alpha in ALPHAS]
        told.append(f"{part} {', '.join(bound.procedure for bound in bounds)}")
    return Claim(says, f"the fastest at α = 0.5, 0.8, 1: {'; '.join(told)}.", None)


def _table(result: StudyResult, agents: Sequence[AgentName], claims: Sequence[Claim]) -> CompletionTable:
    return report_study(
        result,
        [cell for agent in agents for cell in rows(result.records, agent)],
        [*claims, *name_excluded_games(result.records)],
        {agent: measure_agent(result.records, agent) for agent in agents},
    )


def report_layers(result: StudyResult) -> CompletionTable:
    """The report of finding 3."""
    agents: list[AgentName] = ["A2C", "IMPALA"]
    return _table(result, agents, lower_layers(result.records))


def report_procedures(result: StudyResult) -> CompletionTable:
    """The report of finding 1 for agents."""
    return _table(result, ["A2C"], [_best_procedure(result.records)])


def report_experience(result: StudyResult) -> CompletionTable:
    """The report of finding 6."""
    return _table(result, ["Rainbow"], right_experience(result.records))


LAYERS = declare(
    "study",
    "completion-layers",
    paper="Martic2018, figures 4 and 6, tables C.3 and C.5 in kind, MinAtar",
    does="finding 3: for A3C lower layers are harder to complete than upper ones",
    extra="rl",
)(PaperStudy(layer_trials, report_layers, sizes=("small", "medium", "paper")))
OTHER_PROCEDURES = declare(
    "study",
    "completion-agents",
    paper="Martic2018, finding 1 for A3C: T1 to T4, MinAtar",
    does="finding 1: which retraining procedure completes an A3C agent fastest",
    extra="rl",
)(PaperStudy(_other_trials, report_procedures, sizes=("small", "medium", "paper")))
EXPERIENCE = declare(
    "study",
    "completion-experience",
    paper="Martic2018, figure 5, table C.4 in kind, MinAtar",
    does="finding 6: with the replay buffer of the trained agent Rainbow is easier to complete",
    extra="rl",
)(PaperStudy(experience_trials, report_experience, sizes=("small", "medium", "paper")))

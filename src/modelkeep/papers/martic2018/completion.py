"""Finding 5, agents against classifiers; and all six findings in one study, with ours beside the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from modelkeep.completion.hardness import Hardness
from modelkeep.core.method import declare
from modelkeep.core.results import Estimate
from modelkeep.papers.martic2018 import findings, reinforcement
from modelkeep.papers.martic2018.paper_figures import ALEXNET, RESNET50
from modelkeep.papers.martic2018.tables import LAST, CompletionTable, cells, measure_network, report_study
from modelkeep.papers.result import Claim, above, mean
from modelkeep.papers.study import PaperStudy, Size
from modelkeep.papers.table import Cell
from modelkeep.study.record import Record
from modelkeep.study.study import StudyResult
from modelkeep.study.trials import Trial

KINDS = {"T1", "T1 reset"}
"""What finding 5 compares: everything is trained, and an agent has to find its experience anew."""


def agent_trials(size: Size, seed: int) -> Sequence[Trial]:
    """Every layer of classifiers and of agents by T1 and T2."""
    found = [
        *findings.layer_trials(size, seed),
        *reinforcement.layer_trials(size, seed),
        *reinforcement.experience_trials(size, seed),
    ]
    return _once(found)


def _all_trials(size: Size, seed: int) -> Sequence[Trial]:
    """Those of all findings, each once."""
    return _once(
        [
            *findings.procedure_trials(size, seed),
            *findings.parameter_trials(size, seed),
            *agent_trials(size, seed),
        ]
    )


def _once(trials: Sequence[Trial]) -> list[Trial]:
    return list({trial.identity: trial for trial in trials}.values())


def compare_agents(records: Sequence[Record]) -> Claim:
    """Finding 5: single layers at α = 1, one number per network or agent and layer."""
    says = "5. RL models are harder to complete than SL models (T1, single layers, α = 1)."
    found = _measure_all(records)
    classifiers = _layers([found[name] for name in ("AlexNet", "ResNet")])
    agents = _layers([found[name] for name in reinforcement.PRINTED])
    claim = above(says, "agents and classifiers, over the layers", agents, classifiers)
    return replace(claim, found=f"{claim.found} Paper: 0.52 over 14 layers of agents and 0.39 over 14 of classifiers.")


def _layers(found: Sequence[Hardness | None]) -> Estimate | None:
    """The mean over layers, with its interval over them: each layer's mean is one number."""
    values = [
        float(np.mean(cell.values))
        for each in found
        if each is not None
        for cell in each.cells
        if cell.alpha == 1 and cell.procedure in KINDS
    ]
    return mean(values, 0)


def _measure_all(records: Sequence[Record]) -> dict[str, Hardness | None]:
    """What was measured of each classifier and agent."""
    return {
        **{name: measure_network(records, name, findings.one_layer) for name in ("AlexNet", "ResNet")},
        **{name: reinforcement.measure_agent(records, name) for name in reinforcement.PRINTED},
    }


def report_comparison(result: StudyResult) -> CompletionTable:
    """The report of finding 5."""
    claims = [compare_agents(result.records), *reinforcement.name_excluded_games(result.records)]
    return report_study(result, _cells(result.records), claims, _measure_all(result.records))


def report_all(result: StudyResult) -> CompletionTable:
    """All findings: the rows of all tables, and the claims in the paper's order."""
    reports = [findings.procedures(result), findings.residual(result), findings.parameters(result)]
    numbered = [
        *((1, claim) for claim in reports[0].claims),
        *((2, claim) for claim in reports[1].claims),
        *((3, claim) for claim in reinforcement.lower_layers(result.records)),
        *((4, claim) for claim in reports[2].claims),
        *((5, claim) for claim in [compare_agents(result.records)]),
        *((6, claim) for claim in reinforcement.right_experience(result.records)),
    ]
    rows = {(cell.row, cell.column): cell for report in reports for cell in report.cells}
    rows |= {(cell.row, cell.column): cell for cell in _cells(result.records)}
    told = [replace(claim, says=f"{number}. {claim.says.removeprefix(f'{number}. ')}") for number, claim in numbered]
    claims = [*told, *reinforcement.name_excluded_games(result.records)]
    return report_study(result, rows.values(), claims, _measure_all(result.records))


def _cells(records: Sequence[Record]) -> list[Cell]:
    return [
        *cells("AlexNet", measure_network(records, "AlexNet", findings.one_layer), ALEXNET),
        *cells("ResNet", measure_network(records, "ResNet"), RESNET50, LAST),
        *(cell for agent in reinforcement.PRINTED for cell in reinforcement.rows(records, agent)),
    ]


AGENTS = declare(
    "study",
    "completion-reinforcement",
    paper="Martic2018, finding 5: figures 2 to 6 in kind",
    does="finding 5: layers of agents are harder to complete than layers of classifiers",
    extra="rl",
)(PaperStudy(agent_trials, report_comparison, sizes=("small", "medium", "paper")))
COMPLETION = declare(
    "study",
    "completion",
    paper="Martic2018, findings 1 to 6 and appendix C in kind",
    does="how hard it is to get a missing layer back: all six findings, classifiers and agents",
    extra="rl",
)(PaperStudy(_all_trials, report_all, sizes=("small", "medium", "paper")))

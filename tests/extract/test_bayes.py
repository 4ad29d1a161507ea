"""The Bayes attacks: the posterior mean by brute force, and what no attack can do better than."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from modelkeep import Model
from modelkeep.core.access import Scores
from modelkeep.core.errors import InputError
from modelkeep.extract.bayes import PartialBayes, PerfectBayes, simplex_grid
from modelkeep.extract.knowledge import Knowledge
from modelkeep.extract.restorer import DDAEPlus, _restore, _until
from modelkeep.guard.defence import Defence
from modelkeep.guard.defences.modelguard_s import ModelGuardS
from modelkeep.guard.defences.modelguard_w import ModelGuardW
from modelkeep.guard.defences.no_defence import NoDefence
from modelkeep.guard.defences.reverse_sigmoid import ReverseSigmoid
from modelkeep.guard.defences.rounding import Rounding
from modelkeep.guard.grid import confidences, snap
from modelkeep.training import Recipe


def drawn(count: int, classes: int, seed: int = 0, flat: float = 0.5) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.dirichlet(np.full(classes, flat), count)).float()


def asked(defence: Defence, clean: torch.Tensor) -> tuple[torch.Tensor, Knowledge]:
    """The answers to queries with these clean predictions, and what an evaluator's attacker knows of them."""
    classes = clean.shape[1]
    state = defence.initial(classes)
    answers = torch.from_numpy(confidences(defence(snap(clean.numpy()), state)))
    target = Scores(Model(nn.Linear(2, classes), input_shape=(2,), classes=classes))
    questions = torch.zeros(len(clean), 2)
    return answers, Knowledge(target, questions, answers.argmax(dim=1), 0, defence, state, clean)


def distance(recovered: torch.Tensor, knowledge: Knowledge) -> float:
    assert knowledge.clean is not None
    return float((recovered - knowledge.clean).norm(dim=1).mean())


def test_the_grid_of_the_simplex_is_complete() -> None:
    grid = simplex_grid(3, 4)
    assert len(torch.unique(grid, dim=0)) == len(grid) == 15
    assert torch.equal(grid.sum(dim=1), torch.ones(15))
    assert torch.equal((grid * 4).round(), grid * 4)


def test_the_perfect_attack_is_the_mean_of_all_that_could_have_been() -> None:
    answers, knowledge = asked(Rounding(1), drawn(30, 2))
    possible = simplex_grid(2, 1000)
    found = PerfectBayes(possible).recover(answers, knowledge)
    given = confidences(Rounding(1)(snap(possible.numpy())))
    for answer, recovered in zip(answers.numpy(), found, strict=True):
        could = [y for y, gives in zip(possible, given, strict=True) if np.array_equal(gives, answer)]
        torch.testing.assert_close(recovered, torch.stack(could).mean(dim=0))


@pytest.mark.parametrize("classes", [2, 3])
def test_partial_and_perfect_attack_agree_where_the_table_is_complete(classes: int) -> None:
    answers, knowledge = asked(ModelGuardS(0.4), drawn(200, classes))
    perfect = PerfectBayes(simplex_grid(classes, {2: 4000, 3: 300}[classes])).recover(answers, knowledge)
    centre = torch.full((100, classes), 1 / classes)
    # A Dirichlet distribution with one count per class is uniform on the simplex, as the grid is.
    partial = PartialBayes(centre, samples=1000, precision=classes, tolerance=0.0).recover(answers, knowledge)
    assert (partial - perfect).abs().max() < 0.02
    assert (answers - perfect).abs().max() > 0.05  # the answers themselves are no such thing


@pytest.mark.parametrize("defence", [ModelGuardW(1.0), ReverseSigmoid(0.8)], ids=["modelguard-w", "reverse-sigmoid"])
def test_it_undoes_what_can_be_undone(defence: Defence) -> None:
    answers, knowledge = asked(defence, drawn(400, 4))
    naive = distance(answers, knowledge)
    assert distance(PartialBayes().recover(answers, knowledge), knowledge) < 0.6 * naive
    assert distance(DDAEPlus().recover(answers, knowledge), knowledge) < 0.9 * naive


def test_nothing_beats_the_mean_of_a_cluster() -> None:
    clean = drawn(2000, 4)
    answers, knowledge = asked(ModelGuardS(1.0), clean)
    _, cluster = torch.unique(answers, dim=0, return_inverse=True)
    centres = torch.stack([clean[cluster == c].mean(dim=0) for c in range(int(cluster.max()) + 1)])
    risk = float((clean - centres[cluster]).square().sum(dim=1).mean())  # whatever r(ŷ) is
    found = PartialBayes().recover(answers, knowledge)
    loss, naive = (float((each - clean).square().sum(dim=1).mean()) for each in (found, answers))
    assert risk <= loss < 1.2 * risk
    assert naive > 1.2 * loss


def test_the_state_of_the_target_stays_as_it_was() -> None:
    defence = ModelGuardS(0.3)
    answers, knowledge = asked(defence, drawn(50, 3))
    before = [knowledge.state.rows(label).copy() for label in range(3)]
    PartialBayes().recover(answers, knowledge)
    assert all(np.array_equal(knowledge.state.rows(label), before[label]) for label in range(3))


def test_without_a_defence_there_is_nothing_to_recover() -> None:
    answers, knowledge = asked(NoDefence(), drawn(20, 3))
    assert torch.equal(PartialBayes().recover(answers, knowledge), answers)


def test_the_oracle_must_be_given_and_the_attacker_can_do_without() -> None:
    answers, knowing = asked(ModelGuardW(1.0), drawn(300, 4))
    thief = Knowledge(knowing.target, knowing.questions, knowing.labels, 0, knowing.defence, knowing.state)
    with pytest.raises(InputError, match="give clean=…, or means='answers'"):
        PartialBayes().recover(answers, thief)
    with_guesses = PartialBayes(drawn(300, 4, seed=1)).recover(answers, thief)  # of the same distribution, not the same
    assert distance(with_guesses, knowing) < 0.6 * distance(answers, knowing)
    PartialBayes("answers").recover(answers, thief)
    unknowing = Knowledge(knowing.target, knowing.questions, knowing.labels, 0)
    with pytest.raises(InputError, match="must know the defence"):
        PartialBayes("answers").recover(answers, unknowing)


def test_the_same_seed_gives_the_same_recovery() -> None:
    answers, knowledge = asked(ReverseSigmoid(0.8), drawn(50, 4))
    assert torch.equal(PartialBayes().recover(answers, knowledge), PartialBayes().recover(answers, knowledge))


def test_the_restorer_of_the_paper_is_trained_by_the_l1_distance() -> None:
    """Its minimum is the conditional median: of one answer that stands for three predictions, the middle one."""
    clean = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.55, 0.45]]).repeat(40, 1)
    answers = torch.tensor([[0.75, 0.25]]).repeat(120, 1)
    recipe = Recipe(epochs=1, batch_size=60, learning_rate=1e-2)
    median = _restore(answers[:1], clean, answers, _until(recipe, 200), "l1", 0)
    mean = _restore(answers[:1], clean, answers, _until(recipe, 200), "cross-entropy", 0)
    assert median[0, 0].item() == pytest.approx(0.8, abs=0.02)
    assert mean[0, 0].item() == pytest.approx(0.75, abs=0.02)
    assert DDAEPlus(restorer_loss="l1", restorer_epochs=200).name == "d-dae-plus"

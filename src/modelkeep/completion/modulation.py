"""Modulation: search for a model of equal accuracy that is harder, or easier, to complete at a given cut.

Equation 1 can be evaluated automatically, so it can be combined with a search over architectures (section 6). What the
search finds on its own seeds may be luck; what counts is the comparison with the baseline on seeds it has not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from modelkeep import progress
from modelkeep.errors import InputError, MissingExtra, StudyError, bad_parameter
from modelkeep.results import Estimate, Result, measured
from modelkeep.training.batches import derived_seed

if TYPE_CHECKING:
    from optuna.study import Study as Search

Settings = Mapping[str, Any]
Space = Mapping[str, Sequence[Any]]
"""The values that each setting may take: text, numbers, True, False."""
Direction = Literal["harder", "easier"]


@dataclass(frozen=True)
class Measured:
    """One model, trained and completed with one seed: C'/C by procedure, and the accuracy of the original."""

    ratios: dict[str, float]
    accuracy: float


@dataclass(frozen=True)
class Standing:
    """Settings and how they do: the hardness under the `strongest` procedure (equation 1), and the accuracy."""

    settings: dict[str, Any]
    strongest: str
    hardness: Estimate
    accuracy: Estimate

    @classmethod
    def of(cls, settings: Settings, found: Sequence[Measured], seed: int) -> Standing:
        """From one measurement per seed: the infimum over procedures of the mean over seeds."""
        strongest = min(found[0].ratios, key=lambda name: sum(one.ratios[name] for one in found))
        hardness = Estimate.bootstrap([one.ratios[strongest] for one in found], seed)
        return cls(dict(settings), strongest, hardness, Estimate.bootstrap([one.accuracy for one in found], seed))


@dataclass(frozen=True, kw_only=True, eq=False)
class Modulation(Result):
    """The baseline and the settings that were found, both measured on seeds that the search has not seen.

    `difference` is found minus baseline in hardness, seed by seed. `searched` has what the search saw of every trial:
    settings, hardness and accuracy on its own seeds; the first is the baseline.
    """

    direction: Direction
    tolerance: float
    baseline: Standing
    found: Standing
    difference: Estimate
    searched: tuple[tuple[dict[str, Any], float, float], ...]

    @property
    def as_accurate(self) -> bool:
        """Whether the found model's accuracy is the baseline's, less the tolerance at most."""
        return self.found.accuracy.value >= self.baseline.accuracy.value - self.tolerance

    @property
    def holds(self) -> bool | None:
        """Whether the measure was moved as wanted at equal accuracy; None where the seeds cannot tell."""
        if not self.as_accurate:
            return False
        if not self.difference.excludes(0.0):
            return None
        return (self.difference.value > 0) == (self.direction == "harder")

    def rows(self) -> list[tuple[str, str]]:
        changed = {k: v for k, v in self.found.settings.items() if v != self.baseline.settings[k]}
        verdict = {True: "yes", False: "no", None: "inconclusive"}[self.holds]
        rows = [(f"{self.direction} to complete, on seeds not searched", verdict)]
        for name, standing in (("baseline", self.baseline), ("found", self.found)):
            rows.append((f"{name}: hardness", f"{standing.hardness} under {standing.strongest}"))
            rows.append((f"{name}: accuracy", str(standing.accuracy)))
        rows.append(("difference in hardness", str(self.difference)))
        rows.append(("changed", ", ".join(f"{k}={v}" for k, v in changed.items()) or "nothing"))
        return [*rows, ("trials", str(len(self.searched)))]


def modulate(
    space: Space,
    measure: Callable[[Settings, int], Measured],
    *,
    baseline: Settings,
    direction: Direction,
    trials: int,
    tolerance: float,
    search_seeds: Sequence[int],
    held_out_seeds: Sequence[int],
    seed: int,
    storage: Path | None = None,
) -> Modulation:
    """Search `space` with so many trials, then compare what was found with the `baseline` on `held_out_seeds`.

    `measure(settings, seed)` trains a model and completes it. Whatever is less accurate than the baseline by more than
    `tolerance` is worth less than anything that is not. With a `storage` file a stopped or killed search goes on where
    it was, with the settings that it would have tried: the sampler's seed depends only on how many trials are done.
    """
    _require_fit(space, baseline, direction, trials, search_seeds, held_out_seeds)
    identity = {"space": {name: list(values) for name, values in space.items()}, "baseline": dict(baseline)}
    search = _search(
        direction, storage, {**identity, "tolerance": tolerance, "seeds": list(search_seeds), "seed": seed}
    )
    with measured(seed) as provenance, progress.task("searching", trials + len(held_out_seeds)) as task:
        while (done := len(_complete(search))) < trials:
            task.advance(done - task.done)
            _try(search, space, baseline, measure, search_seeds, direction, tolerance, seed)
        task.advance(trials - task.done)
        pairs = []
        for one in held_out_seeds:
            pairs.append([_once(search, settings, measure, one) for settings in (baseline, search.best_params)])
            task.advance()
        before = Standing.of(baseline, [pair[0] for pair in pairs], seed)
        after = Standing.of(search.best_params, [pair[1] for pair in pairs], seed)
        differences = [b.ratios[after.strongest] - a.ratios[before.strongest] for a, b in pairs]
        return Modulation(
            provenance=provenance(),
            direction=direction,
            tolerance=tolerance,
            baseline=before,
            found=after,
            difference=Estimate.bootstrap(differences, seed),
            searched=tuple(
                (trial.params, trial.user_attrs["hardness"], trial.user_attrs["accuracy"])
                for trial in _complete(search)
            ),
        )


def _try(
    search: Search,
    space: Space,
    baseline: Settings,
    measure: Callable[[Settings, int], Measured],
    seeds: Sequence[int],
    direction: Direction,
    tolerance: float,
    seed: int,
) -> None:
    """One trial: the first is the baseline, the others are what the sampler proposes."""
    from optuna.samplers import TPESampler

    complete = _complete(search)
    search.sampler = TPESampler(seed=derived_seed(seed, "search", len(complete)) % 2**32, n_startup_trials=5)
    if not complete:
        search.enqueue_trial(dict(baseline))
    trial = search.ask()
    settings = {name: trial.suggest_categorical(name, list(values)) for name, values in space.items()}
    found = [measure(settings, one) for one in seeds]
    standing = Standing.of(settings, found, seed)
    hardness, accuracy = standing.hardness.value, standing.accuracy.value
    floor = (complete[0].user_attrs["accuracy"] if complete else accuracy) - tolerance
    value = hardness
    if accuracy < floor:  # hardness lies in [0, 1]
        value = accuracy - floor if direction == "harder" else 1 + floor - accuracy
    trial.set_user_attr("hardness", hardness)
    trial.set_user_attr("accuracy", accuracy)
    search.tell(trial, value)


def _once(search: Search, settings: Settings, measure: Callable[[Settings, int], Measured], seed: int) -> Measured:
    """A measurement on a held-out seed, kept so that it is not made twice."""
    key = f"{sorted(settings.items())} with seed {seed}"
    if key not in search.user_attrs:
        search.set_user_attr(key, asdict(measure(settings, seed)))
    return Measured(**search.user_attrs[key])


def _complete(search: Search) -> list[Any]:
    from optuna.trial import TrialState

    return search.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))


def _search(direction: Direction, storage: Path | None, identity: dict[str, Any]) -> Search:
    """The search kept in the file, or a new one."""
    try:
        import optuna
        from optuna.storages import InMemoryStorage, JournalStorage
        from optuna.storages.journal import JournalFileBackend
        from optuna.trial import TrialState
    except ImportError as error:
        raise MissingExtra("completion", "optuna", "A search for hard or easy completion") from error

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if storage is not None:
        storage.parent.mkdir(parents=True, exist_ok=True)
    kept = InMemoryStorage() if storage is None else JournalStorage(JournalFileBackend(str(storage)))
    way: Literal["maximize", "minimize"] = "maximize" if direction == "harder" else "minimize"
    search = optuna.create_study(storage=kept, study_name=direction, direction=way, load_if_exists=True)
    if search.user_attrs.get("identity", identity) != identity:
        raise StudyError(f"The file {storage} holds a search with other settings. Give another path, or delete it.")
    search.set_user_attr("identity", identity)
    for trial in search.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        search.tell(trial.number, state=TrialState.FAIL)  # its process was killed; Optuna would let it run for ever
    return search


def _require_fit(
    space: Space,
    baseline: Settings,
    direction: str,
    trials: int,
    search_seeds: Sequence[int],
    held_out_seeds: Sequence[int],
) -> None:
    if direction not in ("harder", "easier"):
        raise bad_parameter("modulate", "direction", "'harder' or 'easier'", direction)
    if trials < 1:
        raise bad_parameter("modulate", "trials", "at least 1", trials)
    if baseline.keys() != space.keys() or any(baseline[name] not in space[name] for name in space):
        raise InputError(f"The baseline must give each setting of the space one of its values. Got {dict(baseline)}.")
    if not search_seeds or not held_out_seeds or set(search_seeds) & set(held_out_seeds):
        raise InputError("Seeds to search and seeds to judge by must be given, and no seed may be both.")

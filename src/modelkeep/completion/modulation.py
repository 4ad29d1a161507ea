"""Modulation: search for a model of equal accuracy that is harder, or easier, to complete at a given cut.

Hardness (Martic2018, eq. 1) can be evaluated automatically, so it can be combined with a search over architectures
(Martic2018, section 6). The best of many by a few seeds is mostly the luckiest one, so the best few run again with more
seeds, and one of them is chosen. What counts is its comparison with the baseline on seeds that neither the search nor
the choice has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from modelkeep.core import progress
from modelkeep.core.errors import InputError, MissingExtra, StudyError, bad_parameter
from modelkeep.core.results import Estimate, Result, measured
from modelkeep.training.batches import derive_seed

if TYPE_CHECKING:
    from optuna.study import Study as Search

Configuration = Mapping[str, Any]
"""A value for each setting of the space."""
Space = Mapping[str, Sequence[Any]]
"""The values that each setting may take: text, numbers, True, False."""
Direction = Literal["harder", "easier"]


@dataclass(frozen=True)
class Measurement:
    """One model, trained and completed with one seed: C'/C by procedure, and the accuracy of the original."""

    ratios: dict[str, float]
    accuracy: float


@dataclass(frozen=True)
class Performance:
    """How a configuration performs: its hardness under the `strongest` procedure, and its accuracy."""

    settings: dict[str, Any]
    strongest: str
    hardness: Estimate
    accuracy: Estimate

    @classmethod
    def of(cls, settings: Configuration, found: Sequence[Measurement], seed: int) -> Performance:
        """From one measurement per seed: the infimum over procedures of the mean over seeds."""
        strongest = min(found[0].ratios, key=lambda name: sum(one.ratios[name] for one in found))
        hardness = Estimate.bootstrap([one.ratios[strongest] for one in found], seed)
        return cls(dict(settings), strongest, hardness, Estimate.bootstrap([one.accuracy for one in found], seed))


@dataclass(frozen=True, kw_only=True, eq=False)
class Modulation(Result, kind="modulation"):
    """The baseline and the settings that were found, both measured on seeds that the search has not seen.

    `difference` is found minus baseline in hardness, seed by seed. `searched` has what the search saw of every trial:
    settings, hardness and accuracy on its own seeds; the first is the baseline. `finalists` has the same of those that
    the found one was chosen from, on more seeds.
    """

    direction: Direction
    tolerance: float
    baseline: Performance
    found: Performance
    difference: Estimate
    searched: tuple[tuple[dict[str, Any], float, float], ...]
    finalists: tuple[tuple[dict[str, Any], float, float], ...]

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
        for name, performance in (("baseline", self.baseline), ("found", self.found)):
            rows.append((f"{name}: hardness", f"{performance.hardness} under {performance.strongest}"))
            rows.append((f"{name}: accuracy", str(performance.accuracy)))
        rows.append(("difference in hardness", str(self.difference)))
        rows.append(("changed", ", ".join(f"{k}={v}" for k, v in changed.items()) or "nothing"))
        return [*rows, ("trials", f"{len(self.searched)}, of which {len(self.finalists)} ran again")]


def modulate(
    space: Space,
    measure: Callable[[Configuration, int], Measurement],
    *,
    baseline: Configuration,
    direction: Direction,
    trials: int,
    finalists: int,
    tolerance: float,
    search_seeds: Sequence[int],
    final_seeds: Sequence[int],
    held_out_seeds: Sequence[int],
    seed: int = 0,
    storage: str | Path | None = None,
) -> Modulation:
    """Search `space` with this number of trials, then compare what was found with the `baseline` on `held_out_seeds`.

    `measure(settings, seed)` trains a model and completes it. What is less accurate than the baseline on the same seeds
    is worth less than anything that is not, in the search and among the `finalists`, which also run with the
    `final_seeds`; on held-out seeds it may be less accurate by the `tolerance`. With a `storage` file a stopped or
    killed search resumes where it was, with the settings that it would have tried: the sampler's seed depends only on
    how many trials are done.
    """
    _require_fit(space, baseline, direction, trials, finalists, search_seeds, final_seeds, held_out_seeds)
    identity = {"space": {name: list(values) for name, values in space.items()}, "baseline": dict(baseline)}
    search = _search(
        direction, None if storage is None else Path(storage), {**identity, "seeds": list(search_seeds), "seed": seed}
    )
    with measured(seed) as provenance, progress.task("searching", trials + finalists + len(held_out_seeds)) as task:
        while (done := len(_complete(search))) < trials:
            task.advance(done - task.done)
            _try(search, space, baseline, measure, search_seeds, direction, seed)
        task.advance(trials - task.done)
        best, *others = _finals(
            search, measure, baseline, finalists, [*search_seeds, *final_seeds], direction, seed, task
        )
        pairs = []
        for one in held_out_seeds:
            pairs.append([_measure_once(search, settings, measure, one) for settings in (baseline, best.settings)])
            task.advance()
        before = Performance.of(baseline, [pair[0] for pair in pairs], seed)
        after = Performance.of(best.settings, [pair[1] for pair in pairs], seed)
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
            finalists=tuple((one.settings, one.hardness.value, one.accuracy.value) for one in (best, *others)),
        )


def _try(
    search: Search,
    space: Space,
    baseline: Configuration,
    measure: Callable[[Configuration, int], Measurement],
    seeds: Sequence[int],
    direction: Direction,
    seed: int,
) -> None:
    """One trial: the first is the baseline, the others are what the sampler proposes."""
    from optuna.samplers import TPESampler

    complete = _complete(search)
    search.sampler = TPESampler(seed=derive_seed(seed, "search", len(complete)) % 2**32, n_startup_trials=8)
    if not complete:
        search.enqueue_trial(dict(baseline))
    trial = search.ask()
    settings = {name: trial.suggest_categorical(name, list(values)) for name, values in space.items()}
    performance = Performance.of(settings, [_measure_once(search, settings, measure, one) for one in seeds], seed)
    trial.set_user_attr("hardness", performance.hardness.value)
    trial.set_user_attr("accuracy", performance.accuracy.value)
    floor = complete[0].user_attrs["accuracy"] if complete else performance.accuracy.value
    search.tell(trial, _worth(performance, floor, direction))


def _worth(performance: Performance, floor: float, direction: Direction) -> float:
    """What the search maximises (harder) or minimises (easier): the hardness, or a value outside [0, 1]."""
    lacking = floor - performance.accuracy.value
    if lacking > 0:
        return -lacking if direction == "harder" else 1 + lacking
    return performance.hardness.value


def _finals(
    search: Search,
    measure: Callable[[Configuration, int], Measurement],
    baseline: Configuration,
    finalists: int,
    seeds: Sequence[int],
    direction: Direction,
    seed: int,
    task: progress.Task,
) -> list[Performance]:
    """The best few of the search on more seeds, the best of them first."""
    sign = 1 if direction == "easier" else -1
    ranked = sorted(_complete(search), key=lambda trial: sign * trial.value)
    distinct = {_key(trial.params): trial.params for trial in ranked}  # the sampler may try the same again

    def performance(settings: Configuration) -> Performance:
        return Performance.of(settings, [_measure_once(search, settings, measure, one) for one in seeds], seed)

    floor, found = performance(baseline).accuracy.value, []
    for settings in list(distinct.values())[:finalists]:
        found.append(performance(settings))
        task.advance()
    return sorted(found, key=lambda one: sign * _worth(one, floor, direction))


def _measure_once(
    search: Search, settings: Configuration, measure: Callable[[Configuration, int], Measurement], seed: int
) -> Measurement:
    """A measurement, kept so that it is not made twice."""
    key = f"{_key(settings)} with seed {seed}"
    if key not in search.user_attrs:
        search.set_user_attr(key, asdict(measure(settings, seed)))
    return Measurement(**search.user_attrs[key])


def _key(settings: Configuration) -> str:
    return str(sorted(settings.items()))


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
    baseline: Configuration,
    direction: str,
    trials: int,
    finalists: int,
    search_seeds: Sequence[int],
    final_seeds: Sequence[int],
    held_out_seeds: Sequence[int],
) -> None:
    if direction not in ("harder", "easier"):
        raise bad_parameter("modulate", "direction", "'harder' or 'easier'", direction)
    for name, value in (("trials", trials), ("finalists", finalists)):
        if value < 1:
            raise bad_parameter("modulate", name, "at least 1", value)
    if baseline.keys() != space.keys() or any(baseline[name] not in space[name] for name in space):
        raise InputError(f"The baseline must give each setting of the space one of its values. Got {dict(baseline)}.")
    if not search_seeds or not held_out_seeds or {*search_seeds, *final_seeds} & set(held_out_seeds):
        raise InputError("Seeds to search and seeds to judge by must be given, and no seed may be both.")

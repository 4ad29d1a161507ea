"""What a person calls the trials of a study: by what they differ in, however deep in their parameters it stands."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from modelkeep.study.trial import Trial, canonical


def labels(trials: Sequence[Trial]) -> list[str]:
    """A label for each, with as few values as tell the trials of a function apart, short words if possible.

    >>> games = [Trial.of("statistics:fmean", {"task": {"copies": 16, "game": game}}) for game in ("pong", "breakout")]
    >>> labels(games)
    ['fmean(game="pong") seed 0', 'fmean(game="breakout") seed 0']
    """
    leaves = [_leaves(trial.parameters) for trial in trials]
    by_function: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for trial, own in zip(trials, leaves, strict=True):
        by_function[trial.function].append(own)
    told = {function: _told(of_all) for function, of_all in by_function.items()}
    return [
        trial.called({name: own[path] for path, name in shown.items() if path in own}) if shown else trial.label
        for trial, own in zip(trials, leaves, strict=True)
        for shown in [told[trial.function]]
    ]


def _leaves(parameters: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """By its path, such as "task.game", each value that has no values itself."""
    found: dict[str, Any] = {}
    for name, value in parameters.items():
        found |= _leaves(value, f"{path}{name}.") if isinstance(value, dict) and value else {f"{path}{name}": value}
    return found


def _told(of_all: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The paths that tell trials apart, and the name of each: the last word, where no other path has it."""
    paths = dict.fromkeys(path for own in of_all for path in own)
    texts = {path: [canonical(own[path]) if path in own else "" for own in of_all] for path in paths}
    told = [path for path in paths if len(set(texts[path])) > 1]
    apart = _apart(told, texts)
    for path in sorted(told, key=lambda path: _dullness(texts[path]), reverse=True):
        fewer = [other for other in told if other != path]
        if _apart(fewer, texts) == apart:
            told = fewer
    last = Counter(path.rpartition(".")[2] for path in told)
    return {path: word if last[word := path.rpartition(".")[2]] == 1 else path for path in told}


def _dullness(texts: Sequence[str]) -> tuple[bool, int]:
    """What is left out first: numbers and lists before words, and the long before the short."""
    return not all(text[:1] in ('"', "") for text in texts), max(map(len, texts))


def _apart(paths: Sequence[str], texts: Mapping[str, Sequence[str]]) -> int:
    """How many kinds of trials there are for one who sees these paths."""
    return len(set(zip(*(texts[path] for path in paths), strict=True)))

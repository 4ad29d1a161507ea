"""Labels of the trials of a study: the parameters in which they differ, at any depth."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from modelkeep.study.trials import Trial, canonical


def labels(trials: Sequence[Trial]) -> list[str]:
    """A label for each, with as few values as distinguish the trials of a function, short words if possible.

    >>> games = [Trial.of("statistics:fmean", {"task": {"copies": 16, "game": game}}) for game in ("pong", "breakout")]
    >>> labels(games)
    ['fmean(game="pong") seed 0', 'fmean(game="breakout") seed 0']
    """
    leaves = [_leaves(trial.parameters) for trial in trials]
    by_name: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for trial, own in zip(trials, leaves, strict=True):
        by_name[trial.name].append(own)
    shown = {name: _distinguishing(of_all) for name, of_all in by_name.items()}
    found = []
    for trial, own in zip(trials, leaves, strict=True):
        parameters = {word: own[path] for path, word in shown[trial.name].items() if path in own}
        found.append(trial.label_with(parameters) if shown[trial.name] else trial.label)
    return found


def _leaves(parameters: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """By its path, such as "task.game", each value that has no values itself."""
    found: dict[str, Any] = {}
    for name, value in parameters.items():
        found |= _leaves(value, f"{path}{name}.") if isinstance(value, dict) and value else {f"{path}{name}": value}
    return found


def _distinguishing(of_all: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The paths that distinguish the trials, and the name of each: its last word, unless two paths end with it."""
    paths = dict.fromkeys(path for own in of_all for path in own)
    texts = {path: [canonical(own[path]) if path in own else "" for own in of_all] for path in paths}
    chosen = [path for path in paths if len(set(texts[path])) > 1]
    apart = _apart(chosen, texts)
    for path in sorted(chosen, key=lambda path: _dullness(texts[path]), reverse=True):
        fewer = [other for other in chosen if other != path]
        if _apart(fewer, texts) == apart:
            chosen = fewer
    last = Counter(path.rpartition(".")[2] for path in chosen)
    return {path: word if last[word := path.rpartition(".")[2]] == 1 else path for path in chosen}


def _dullness(texts: Sequence[str]) -> tuple[bool, int]:
    """What is left out first: numbers and lists before words, long values before short ones."""
    return not all(text[:1] in ('"', "") for text in texts), max(map(len, texts))


def _apart(paths: Sequence[str], texts: Mapping[str, Sequence[str]]) -> int:
    """How many kinds of trials these paths distinguish."""
    return len(set(zip(*(texts[path] for path in paths), strict=True)))

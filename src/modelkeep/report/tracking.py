"""Tracking: a result's figures, settings and files go to the experiment tracker that the team already has."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from modelkeep.core.errors import MissingExtra, bad_parameter
from modelkeep.core.results import Estimate, Result
from modelkeep.report.measure import Measure

if TYPE_CHECKING:
    from types import ModuleType

Tracker = Literal["mlflow", "wandb"]
_LONGEST = 500  # characters of a parameter: MLflow's file store takes no more


def log_result(result: Result, to: Tracker, files: Sequence[str | Path] = ()) -> str:
    """Log a result to MLflow or Weights & Biases; the run's id.

    The run that is active takes it; where there is none, one is made and ended. Every number is a metric, with its
    interval beside it; method, settings, seed, fingerprints, version and the lines that repeat it are parameters; the
    result itself is kept as JSON, which `Result.from_json` reads back. `files` (the HTML page, say) go with it.

    Args:
        result: What any method, or the audit, returned.
        to: `"mlflow"` or `"wandb"`. Its own settings say where it keeps runs.
        files: Further files to keep.
    """
    if to not in _LOGGERS:
        raise bad_parameter("log_result", "to", " or ".join(f"'{name}'" for name in _LOGGERS), to)
    with tempfile.TemporaryDirectory() as folder:
        stored = Path(folder) / f"{result.kind()}.json"
        stored.write_text(result.to_json(), encoding="utf-8")
        return _LOGGERS[to](result, [stored, *map(Path, files)])


def metrics_of(result: Result) -> dict[str, float]:
    """Every number of a result by its name; an estimate's interval and sample size stand beside it.

    Names have letters, digits, `_`, `/` and spaces only, which both trackers take.
    """
    found: dict[str, float] = {}
    for each in fields(result):
        value = getattr(result, each.name)
        if isinstance(value, Estimate):
            found |= _of_estimate(each.name, value)
        elif isinstance(value, int | float):
            found[each.name] = float(value)
        elif isinstance(value, tuple):
            for measure in value:
                if isinstance(measure, Measure):
                    found |= _of_estimate(measure.name, measure.estimate)
    severities = Counter(finding.severity for finding in getattr(result, "findings", ()))
    found |= {f"findings/{severity}": float(count) for severity, count in severities.items()}
    found["seconds"] = result.provenance.seconds
    return {_plain(name): number for name, number in found.items() if math.isfinite(number)}


def parameters_of(result: Result) -> dict[str, str]:
    """What made a result: method, settings, seed, fingerprints and version, and the lines that repeat it."""
    made = result.provenance
    known: Mapping[str, object] = {
        "kind": result.kind(),
        "method": made.method,
        "seed": made.seed,
        "model": made.model,
        "data": made.data,
        "modelkeep": made.version,
        "command": result.command,
        "python": result.python,
        **{f"settings/{name}": value for name, value in made.settings.items()},
    }
    return {_plain(name): str(value)[:_LONGEST] for name, value in known.items() if value not in (None, "")}


def _of_estimate(name: str, estimate: Estimate) -> dict[str, float]:
    return {
        name: estimate.value,
        f"{name}/low": estimate.low,
        f"{name}/high": estimate.high,
        f"{name}/n": float(estimate.n),
    }


def _plain(name: str) -> str:
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "_/ ") else "_" for letter in name)


def _import(package: Tracker) -> ModuleType:
    from importlib import import_module

    try:
        return import_module(package)
    except ImportError as missing:
        raise MissingExtra(package, package, "Logging a result there") from missing


def _log_to_mlflow(result: Result, files: Sequence[Path]) -> str:
    mlflow = _import("mlflow")
    with _mlflow_run(mlflow) as run:
        prefix = f"{result.kind()}/"
        mlflow.log_params({prefix + name: value for name, value in parameters_of(result).items()})
        mlflow.log_metrics({prefix + name: value for name, value in metrics_of(result).items()})
        for path in files:
            mlflow.log_artifact(str(path), artifact_path="modelkeep")
        return str(run.info.run_id)


@contextmanager
def _mlflow_run(mlflow: ModuleType) -> Iterator[Any]:
    active = mlflow.active_run()
    if active is not None:
        yield active  # it is the caller's, who ends it
    else:
        with mlflow.start_run() as started:
            yield started


def _log_to_wandb(result: Result, files: Sequence[Path]) -> str:
    wandb = _import("wandb")
    active = wandb.run
    run = active if active is not None else wandb.init()
    try:
        prefix = f"{result.kind()}/"
        run.config.update({prefix + name: value for name, value in parameters_of(result).items()})
        run.log({prefix + name: value for name, value in metrics_of(result).items()})
        artifact = wandb.Artifact(f"modelkeep-{result.kind()}", type="modelkeep-result")
        for path in files:
            artifact.add_file(str(path), name=path.name)
        run.log_artifact(artifact)
        return str(run.id)
    finally:
        if active is None:
            run.finish()


_LOGGERS = {"mlflow": _log_to_mlflow, "wandb": _log_to_wandb}

"""Execution: a worker process runs one trial, and says which code did it."""

from __future__ import annotations

import json
import random
import traceback
from importlib import import_module
from typing import Any

from modelkeep.core import progress
from modelkeep.core.errors import StudyError
from modelkeep.study.closure import File, loaded_files
from modelkeep.study.folder import working_in
from modelkeep.study.names import name_at
from modelkeep.study.progress_file import ProgressFile
from modelkeep.study.trials import Trial, canonical, to_json


def execute(trial: Trial, directory: str) -> tuple[str, str, dict[str, File]]:
    """Run a trial in this process: ("done", its value as JSON, its code's files) or ("failed", the traceback, nothing).

    The files are hashed by the process that watches this one: it does so once for all its workers, and in its own time.
    """
    # Loaded before the trial even where it does not use them: a worker is reused, and a library first imported
    # inside one trial would start from a random state that the next trial does not see.
    import numpy
    import torch

    try:
        declared = name_at(trial.home)
        if (declared.name, declared.version) != (trial.name, trial.version):
            raise StudyError(
                f"The trial at {trial.home} changed while the study ran: it was {trial.name}, version {trial.version}; "
                f"it is {declared.name}, version {declared.version}."
            )
        module, _, name = trial.home.partition(":")
        function = getattr(import_module(module), name)
        loaded_files(trial.home)  # also now, so that an edit while the trial runs is not taken for its code
        random.seed(trial.seed)
        numpy.random.seed(trial.seed % 2**32)
        torch.manual_seed(trial.seed)
        with working_in(directory, trial.home), progress.watch(ProgressFile(directory)):
            value = function(seed=trial.seed, **trial.parameters)
        return "done", _value_to_json(value), loaded_files(trial.home)
    except BaseException as error:  # also SystemExit: a trial that leaves fails, its worker stays
        error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
        return "failed", "".join(traceback.format_exception(error)), {}


def _value_to_json(value: Any) -> str:
    from modelkeep.core.results import Result

    if isinstance(value, Result):
        return canonical(json.loads(value.to_json()))
    return to_json(value, "The returned data of a trial")

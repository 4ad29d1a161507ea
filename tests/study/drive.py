"""A study in a process of its own, for tests that kill it: `python drive.py LEDGER LOG TRIALS PROCESSES`."""

from __future__ import annotations

import sys

from modelkeep.study import Ledger, Local, Study, grid, run

if __name__ == "__main__":
    path, log, trials, processes = sys.argv[1:]
    study = Study("driven", grid("trials:logged", {"x": range(int(trials)), "log": [log]}))
    with Ledger(path) as ledger:
        run(study, ledger, Local(int(processes), threads=1))

"""Run the tutorials and say how long each took: `python tools/run_notebooks.py [NAME ...]`. It needs the extra `bench`.

Each runs from top to bottom in a fresh kernel and an empty folder. The files stay as they are: they are kept without
outputs, which would go stale.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from time import perf_counter

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

TUTORIALS = Path(__file__).parent.parent / "docs" / "tutorials"
LONGEST = 300  # seconds of a cell; on an idle machine the whole notebook takes less than one minute


def run(path: Path) -> None:
    """Run one notebook; a cell that fails ends it with the cell's own traceback."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=LONGEST, resources={"metadata": {"path": folder}}).execute()


def main(names: list[str]) -> int:
    """Run the named tutorials, or all; the number that failed."""
    paths = [TUTORIALS / f"{name}.ipynb" for name in names] or sorted(TUTORIALS.glob("*.ipynb"))
    failed = 0
    for path in paths:
        start = perf_counter()
        try:
            run(path)
        except CellExecutionError as error:
            failed += 1
            sys.stdout.write(f"{path.stem}: failed\n{error}\n")
        else:
            sys.stdout.write(f"{path.stem}: {perf_counter() - start:.0f} s\n")
        sys.stdout.flush()
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

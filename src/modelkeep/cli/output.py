"""What the verbs that write a page say at the end: where the files are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modelkeep.core.progress import command_seconds

if TYPE_CHECKING:
    from rich.console import Console


def show_files(console: Console, written: Sequence[Path], what: str = "page") -> None:
    """Name the page, the file for machines, and the other files."""
    page, record, *others = (path.resolve() for path in written)
    console.print(f"\nThe {what}: [bold]{page}[/bold]  (for machines: {record})", soft_wrap=True)
    for other in others:
        console.print(f"  {other}", soft_wrap=True)
    seconds = command_seconds()
    if seconds is not None:
        console.print(f"The command took {seconds:.1f} s.")

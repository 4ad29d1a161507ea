"""Write docs/methods.md: the tables of all methods and their settings, from their declarations."""

from __future__ import annotations

from dataclasses import is_dataclass
from pathlib import Path

from modelkeep.core.method import options_of
from modelkeep.core.registry import declarations, families

PAGE = Path(__file__).parent.parent / "docs" / "methods.md"
HEAD = """# All methods

Everything that has a name, by family. `modelkeep methods FAMILY NAME` shows one of them on a terminal. This page is
made from the declarations in the code by `python tools/method_tables.py`.
"""


def render() -> str:
    """The whole page."""
    parts = [HEAD]
    for family in families():
        parts.append(f"\n## {family}\n")
        parts.append("| name | sees | what it does | settings | paper |\n|---|---|---|---|---|")
        for each in declarations(family).values():
            row = (f"`{each.name}`", each.access, each.does, _settings(each.load()), each.paper)
            parts.append(f"| {' | '.join(cell.replace('|', '∣') for cell in row)} |")
    return "\n".join(parts) + "\n"


def _settings(method: object) -> str:
    if not isinstance(method, type) or not is_dataclass(method):
        return ""
    return ", ".join(
        f"`{each.name}`" if each.required else f"`{each.name}` = {each.default}"
        for each in options_of(method)
        if each.required or isinstance(each.default, int | float | str)
    )


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")

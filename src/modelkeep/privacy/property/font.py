"""A font of 3×5 pixels: text that can be read in a picture of 28 pixels."""

from __future__ import annotations

import torch

from modelkeep.core.errors import InputError

WIDTH, HEIGHT = 3, 5
"""The size of a letter. A line and a letter are followed by one empty pixel."""

# Five rows of three pixels; "#" is ink.
_GLYPHS = {
    "#": "#.# ### #.# ### #.#",
    "A": ".#. #.# ### #.# #.#",
    "B": "##. #.# ##. #.# ##.",
    "C": ".## #.. #.. #.. .##",
    "D": "##. #.# #.# #.# ##.",
    "E": "### #.. ##. #.. ###",
    "F": "### #.. ##. #.. #..",
    "G": ".## #.. #.# #.# .##",
    "H": "#.# #.# ### #.# #.#",
    "I": "### .#. .#. .#. ###",
    "J": "..# ..# ..# #.# .#.",
    "K": "#.# #.# ##. #.# #.#",
    "L": "#.. #.. #.. #.. ###",
    "M": "#.# ### ### #.# #.#",
    "N": "##. #.# #.# #.# #.#",
    "O": ".#. #.# #.# #.# .#.",
    "P": "##. #.# ##. #.. #..",
    "Q": ".#. #.# #.# ##. .##",
    "R": "##. #.# ##. #.# #.#",
    "S": ".## #.. .#. ..# ##.",
    "T": "### .#. .#. .#. .#.",
    "U": "#.# #.# #.# #.# ###",
    "V": "#.# #.# #.# #.# .#.",
    "W": "#.# #.# ### ### #.#",
    "X": "#.# #.# .#. #.# #.#",
    "Y": "#.# #.# .#. .#. .#.",
    "Z": "### ..# .#. #.. ###",
    "0": "### #.# #.# #.# ###",
    "1": ".#. ##. .#. .#. ###",
    "2": "##. ..# .#. #.. ###",
    "3": "##. ..# .#. ..# ##.",
    "4": "#.# #.# ### ..# ..#",
    "5": "### #.. ##. ..# ##.",
    "6": ".## #.. ### #.# ###",
    "7": "### ..# .#. .#. .#.",
    "8": "### #.# ### #.# ###",
    "9": "### #.# ### ..# ##.",
    "-": "... ... ### ... ...",
    " ": "... ... ... ... ...",
}


def write(text: str, width: int) -> torch.Tensor:
    """The ink of a text in capitals, `(rows, columns)`, wrapped where a picture of that `width` is narrower.

    >>> for row in write("#a", 28):
    ...     print("".join(".#"[int(ink)] for ink in row))
    #.#..#.
    ###.#.#
    #.#.###
    ###.#.#
    #.#.#.#
    """
    letters = text.upper()
    unknown = sorted(set(letters) - set(_GLYPHS))
    if not letters or unknown:
        raise InputError(f"A mark is written in letters, digits, '#', '-' and ' '. Got {text!r}.")
    fits = (width + 1) // (WIDTH + 1)
    if fits < 1:
        raise InputError(f"A letter is {WIDTH} pixels wide, and the space for the mark only {width}.")
    lines = [letters[i : i + fits] for i in range(0, len(letters), fits)]
    drawn = torch.zeros((HEIGHT + 1) * len(lines) - 1, (WIDTH + 1) * len(lines[0]) - 1, dtype=torch.bool)
    for i, line in enumerate(lines):
        for j, letter in enumerate(line):
            top, left = (HEIGHT + 1) * i, (WIDTH + 1) * j
            drawn[top : top + HEIGHT, left : left + WIDTH] = _pixels(letter)
    return drawn


def _pixels(letter: str) -> torch.Tensor:
    return torch.tensor([[pixel == "#" for pixel in row] for row in _GLYPHS[letter].split()])

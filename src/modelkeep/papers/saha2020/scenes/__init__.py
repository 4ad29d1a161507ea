"""CLEVR-like scenes: things that can be drawn and asked about, each question with a program that answers it.

CLEVR (Johnson2017) renders its scenes in Blender; these are drawn by a few lines of torch, so that a study
needs no download. Words, attributes, relations and the five question families are CLEVR's.
"""

from __future__ import annotations

from modelkeep.papers.saha2020.scenes.picture import draw_picture, find_thing
from modelkeep.papers.saha2020.scenes.programs import Program, execute
from modelkeep.papers.saha2020.scenes.questions import ANSWERS, FAMILIES, LONGEST, VOCABULARY, Question, ask, tokens
from modelkeep.papers.saha2020.scenes.scene import ATTRIBUTES, Scene, Thing, draw_scene

__all__ = [
    "ANSWERS",
    "ATTRIBUTES",
    "FAMILIES",
    "LONGEST",
    "VOCABULARY",
    "Program",
    "Question",
    "Scene",
    "Thing",
    "ask",
    "draw_picture",
    "draw_scene",
    "execute",
    "find_thing",
    "tokens",
]

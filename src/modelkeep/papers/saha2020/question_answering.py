"""Answering: features of a frozen classifier, questions and a MAC network, in the form that `fit` and attacks take."""

from __future__ import annotations

from random import Random

import torch
from torch import nn

from modelkeep.core.data import Data
from modelkeep.core.model import Model
from modelkeep.papers.saha2020.scenes import (
    ANSWERS,
    ATTRIBUTES,
    FAMILIES,
    LONGEST,
    VOCABULARY,
    Question,
    Scene,
    ask,
    draw_picture,
    draw_scene,
    find_thing,
    tokens,
)
from modelkeep.zoo.architectures.mac import MAC

CLASSES = tuple(f"{colour} {shape}" for colour in ATTRIBUTES["colour"] for shape in ATTRIBUTES["shape"])


def close_ups(n: int, pixels: int, seed: int) -> Data:
    """What the classifier learns from: one thing each, whose class is its colour and shape.

    A close-up shows a window of half the width of a scene of `pixels`, so that a thing has as many pixels as there.
    """
    random, side = Random(seed), pixels // 2
    x, y = [], []
    for _ in range(n):
        (thing,) = alone = draw_scene(random, 1, 1)
        left, top = (_window(at * pixels, side, pixels, random) for at in (thing.x, thing.y))
        x.append(draw_picture(alone, pixels, random.getrandbits(32))[:, top : top + side, left : left + side])
        y.append(CLASSES.index(f"{thing.colour} {thing.shape}"))
    return Data(torch.stack(x), torch.tensor(y), CLASSES, "close-ups", bounds=(0.0, 1.0))


def _window(centre: float, side: int, pixels: int, random: Random) -> int:
    """Where a window begins that has the thing at `centre` near its middle, and is within the picture."""
    return min(max(round(centre + random.uniform(-0.2, 0.2) * side - side / 2), 0), pixels - side)


class Quiz:
    """Scenes, their pictures, and `rounds` questions of each family about each scene."""

    def __init__(self, scenes: int, rounds: int, pixels: int, seed: int) -> None:
        random = Random(seed)
        self.scenes: list[Scene] = [draw_scene(random) for _ in range(scenes)]
        self.pictures = torch.stack([draw_picture(one, pixels, random.getrandbits(32)) for one in self.scenes])
        self.about = [i for i in range(scenes) for _ in FAMILIES for _ in range(rounds)]
        families = [family for _ in range(scenes) for family in FAMILIES for _ in range(rounds)]
        self.questions: list[Question] = [
            ask(self.scenes[i], family, random) for i, family in zip(self.about, families, strict=True)
        ]

    def data(self) -> Data:
        """Each question as one row of numbers: which scene it is about, then its words."""
        about = zip(self.about, self.questions, strict=True)
        x = torch.tensor([[i, *tokens(question.words, LONGEST)] for i, question in about], dtype=torch.float32)
        return Data(x, self._answers(), ANSWERS, "questions")

    def with_pictures(self, first: int) -> tuple[Data, torch.Tensor]:
        """The `first` questions with their pictures, see `FromPicture`; and where the background is."""
        pixels = self.pictures.shape[-1]
        planes, background = [], []
        for i, question in zip(self.about[:first], self.questions[:first], strict=True):
            plane = torch.zeros(pixels * pixels)
            plane[:LONGEST] = torch.tensor(tokens(question.words, LONGEST)) / len(VOCABULARY)
            planes.append(torch.cat([self.pictures[i], plane.view(1, pixels, pixels)]))
            free = ~find_thing(self.scenes[i], pixels)
            background.append(torch.stack([free, free, free, torch.zeros_like(free)]))
        data = Data(torch.stack(planes), self._answers()[:first], ANSWERS, "pictures with questions", bounds=(0.0, 1.0))
        return data, torch.stack(background)

    def _answers(self) -> torch.Tensor:
        return torch.tensor([ANSWERS.index(question.answer) for question in self.questions])


class Features(nn.Module):
    """The features of a frozen classifier at a place, each channel with mean 0 and variance 1 on given pictures.

    So that a difference between classifiers is not one of scale, to which a learning rate would be better suited.
    """

    mean: torch.Tensor
    scale: torch.Tensor

    def __init__(self, classifier: Model, place: str, pictures: torch.Tensor) -> None:
        super().__init__()
        self.classifier = classifier.module  # so that it is frozen with the rest
        self.cut = classifier.slice(place)
        found = torch.cat([self.cut.h(part).value.detach() for part in torch.split(pictures, 256)])
        self.register_buffer("mean", found.mean(dim=(0, 2, 3), keepdim=True))
        self.register_buffer("scale", found.std(dim=(0, 2, 3), keepdim=True).clamp_min(1e-6))

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = (self.cut.h(pictures).value - self.mean) / self.scale
        return features

    def of(self, pictures: torch.Tensor, device: str) -> torch.Tensor:
        """Those of many pictures, without gradients and kept beside them, not on the device."""
        with torch.no_grad():
            return torch.cat([self(part.to(device)).to(pictures.device) for part in torch.split(pictures, 256)])


class FromBank(nn.Module):
    """Answers rows of `Quiz.data` from features that were computed once, as many questions share a picture.

    The bank is not a buffer: it is not part of what is trained, saved or counted, and may be too large for the device.
    """

    def __init__(self, bank: torch.Tensor, mac: MAC) -> None:
        super().__init__()
        self.bank = bank
        self.mac = mac

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.long()
        logits: torch.Tensor = self.mac(self.bank[rows[:, 0].to(self.bank.device)].to(x), rows[:, 1:])
        return logits


class FromPicture(nn.Module):
    """Answers `(n, 4, h, w)`: a picture and, in the fourth plane, its question. An attack's way to the pixels.

    The plane holds the tokens, divided by the size of the vocabulary to be within the bounds; a mask keeps an attack
    from changing the question.
    """

    def __init__(self, features: Features, mac: MAC) -> None:
        super().__init__()
        self.features = features
        self.mac = mac

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        question = (x[:, 3].flatten(1)[:, :LONGEST] * len(VOCABULARY)).round().long()
        logits: torch.Tensor = self.mac(self.features(x[:, :3]), question)
        return logits

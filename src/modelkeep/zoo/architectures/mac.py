"""MAC: the compositional attention network for questions about pictures (Hudson2018; Saha2020, fig. 4.2).

A chain of cells, each with a control (which part of the question comes now) and a memory (what was found so far).
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from modelkeep.core.errors import bad_parameter


class MAC(nn.Module):
    """Features of a picture `(n, channels, h, w)` and a question `(n, words)` of tokens from 1 (0: no word) to logits.

    As in the paper, the weights of a cell are shared by all `steps`; only where a step looks first in the question is
    its own. Two planes with the place of each feature are added, because a small network is slow to learn from the
    padding alone where a feature is.

    >>> mac = MAC(channels=8, vocabulary=10, answers=4, width=16, steps=2)
    >>> mac(torch.zeros(5, 8, 3, 3), torch.ones(5, 6, dtype=torch.int64)).shape
    torch.Size([5, 4])
    """

    def __init__(self, *, channels: int, vocabulary: int, answers: int, width: int, steps: int) -> None:
        super().__init__()
        if width < 2 or width % 2:
            raise bad_parameter("MAC", "width", "an even number from 2", width)
        if steps < 1:
            raise bad_parameter("MAC", "steps", "at least 1", steps)
        self.words = nn.Embedding(vocabulary, width, padding_idx=0)
        self.sentence = nn.LSTM(width, width // 2, batch_first=True, bidirectional=True)
        self.knowledge = nn.Sequential(
            nn.Conv2d(channels + 2, width, 3, padding=1), nn.ELU(), nn.Conv2d(width, width, 3, padding=1), nn.ELU()
        )
        self.control, self.read, self.write = Control(width, steps), Read(width), Write(width)
        self.first_control = nn.Parameter(torch.randn(width))
        self.first_memory = nn.Parameter(torch.randn(width))
        self.answer = nn.Sequential(nn.Linear(2 * width, width), nn.ELU(), nn.Linear(width, answers))
        self.steps = steps
        self._larger_start()

    def _larger_start(self) -> None:
        """Glorot's weights, as in the paper's code, and a plain sum over the control in the read unit.

        A score is a product of five numbers: with torch's smaller weights all scores are nearly 0 at first, and the
        network learns for thousands of steps what is in the picture but not where.
        """
        for name, parameter in self.named_parameters():
            if parameter.ndim > 1 and name != "words.weight":
                nn.init.xavier_uniform_(parameter)
        nn.init.ones_(self.read.attention.weight)

    def forward(self, features: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Logits `(n, answers)`."""
        words, question = self._input(tokens)
        knowledge = self.knowledge(_with_places(features)).flatten(2).transpose(1, 2)  # (n, h·w, width)
        projected = self.read.knowledge(knowledge)  # the same in every step
        control = self.first_control.expand(len(tokens), -1)
        memory = self.first_memory.expand(len(tokens), -1)
        for step in range(self.steps):
            control = self.control(step, control, question, words, tokens == 0)
            memory = self.write(memory, self.read(memory, control, knowledge, projected))
        logits: torch.Tensor = self.answer(torch.cat([memory, question], dim=1))
        return logits

    def _input(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The words in their context `(n, words, width)` and the whole question `(n, width)`."""
        lengths = (tokens != 0).sum(dim=1).cpu()
        packed = pack_padded_sequence(self.words(tokens), lengths, batch_first=True, enforce_sorted=False)
        read, (last, _) = self.sentence(packed)
        words, _ = pad_packed_sequence(read, batch_first=True, total_length=tokens.shape[1])
        return words, torch.cat([last[0], last[1]], dim=1)


class Control(nn.Module):
    """c1–c3: attend to the words that matter in this step."""

    def __init__(self, width: int, steps: int) -> None:
        super().__init__()
        self.position = nn.ModuleList(nn.Linear(width, width) for _ in range(steps))
        self.joint = nn.Linear(2 * width, width)
        self.attention = nn.Linear(width, 1)

    def forward(
        self, step: int, control: torch.Tensor, question: torch.Tensor, words: torch.Tensor, empty: torch.Tensor
    ) -> torch.Tensor:
        """The new control `(n, width)`: a mean of the words."""
        wanted = self.joint(torch.cat([control, self.position[step](question)], dim=1))
        scores = self.attention(wanted[:, None] * words)[..., 0].masked_fill(empty, -torch.inf)
        return torch.einsum("nl,nlw->nw", scores.softmax(dim=1), words)


class Read(nn.Module):
    """r1–r4: attend to the places of the picture that the control asks for, in the light of the memory.

    The paper's equations, with ⊙ the product of each number with its own: I = (M m) ⊙ (K k) for each place k,
    I' = A I + B k, and the score of the place is wᵀ(c ⊙ I'). That is linear in k. So the question to the picture can
    be made first, without an I' per place: with u = w ⊙ c, the score is (M m ⊙ Aᵀu)ᵀ K k + (Bᵀu)ᵀ k.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.memory = nn.Linear(width, width)
        self.knowledge = nn.Linear(width, width)
        self.related = nn.Linear(width, width, bias=False)  # A; a bias here would add the same to every place
        self.alone = nn.Linear(width, width, bias=False)  # B
        self.attention = nn.Linear(width, 1, bias=False)  # w

    def forward(
        self, memory: torch.Tensor, control: torch.Tensor, knowledge: torch.Tensor, projected: torch.Tensor
    ) -> torch.Tensor:
        """What was read `(n, width)`: a mean of the knowledge k `(n, places, width)`, with K k as `projected`."""
        wanted = self.attention.weight * control
        with_memory = self.memory(memory) * (wanted @ self.related.weight)
        scores = projected @ with_memory[:, :, None] + knowledge @ (wanted @ self.alone.weight)[:, :, None]
        read: torch.Tensor = (scores.softmax(dim=1).mT @ knowledge)[:, 0]
        return read


class Write(nn.Module):
    """w1: what was read and what was known become the new memory."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.joint = nn.Linear(2 * width, width)

    def forward(self, memory: torch.Tensor, read: torch.Tensor) -> torch.Tensor:
        """The new memory `(n, width)`."""
        new: torch.Tensor = self.joint(torch.cat([read, memory], dim=1))
        return new


def _with_places(features: torch.Tensor) -> torch.Tensor:
    n, _, height, width = features.shape
    down = torch.linspace(-1, 1, height, device=features.device, dtype=features.dtype).view(1, 1, height, 1)
    across = torch.linspace(-1, 1, width, device=features.device, dtype=features.dtype).view(1, 1, 1, width)
    planes = [place.expand(n, 1, height, width) for place in (down, across)]
    return torch.cat([features, *planes], dim=1)

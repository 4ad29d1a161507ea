"""Sources: the names by which a command line finds what was audited, so that commands can be pasted as they are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

_PLACES = re.compile(r"\b(MODEL|DATA|TRAIN)\b")


@dataclass(frozen=True)
class Sources:
    """The model, the data and the training data as the user named them; `options` are those that describe the model."""

    model: str = ""
    data: str = ""
    train: str = ""
    options: str = ""

    @property
    def model_file(self) -> Path | None:
        """The model's file, where it is one."""
        path = Path(self.model) if self.model else None
        return path if path is not None and path.is_file() else None

    def fill(self, text: str) -> str:
        """The text with our names in place of MODEL, DATA and TRAIN.

        >>> Sources("my net.onnx", "digits").fill("modelkeep attack MODEL --data DATA --seed 0")
        "modelkeep attack 'my net.onnx' --data digits --seed 0"
        """
        named = {"MODEL": self.model, "DATA": self.data, "TRAIN": self.train}

        def name(place: re.Match[str]) -> str:
            given = named[place[1]]
            if not given:
                return place[1]
            return f"{quote(given)} {self.options}".rstrip() if place[1] == "MODEL" else quote(given)

        return _PLACES.sub(name, text)

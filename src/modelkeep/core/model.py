"""Model: the owner's `nn.Module` with its input shape, classes, preprocessing and device."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from modelkeep.core import embedding, formats, inputs, modes, slices
from modelkeep.core.adapter import Adapter, adapt, owner_of
from modelkeep.core.answerers import open_answerer
from modelkeep.core.black_box import Access, Gives, Kind, access_of, require_access
from modelkeep.core.card import Card, Preprocessing, class_names, shape_of
from modelkeep.core.data import Data
from modelkeep.core.errors import ModelError, unknown_class
from modelkeep.core.fingerprint import fingerprint
from modelkeep.core.guarantee import Guarantee
from modelkeep.core.html import model_html
from modelkeep.core.nest import Nest
from modelkeep.core.slices.pieces import Piece, pieces


class Model:
    """A classifier that one can ask, cut, explain, attack and save.

    The module maps `(n, *input_shape)` to logits `(n, len(classes))` and is kept in eval mode; only the training
    loop ever changes that. A module that takes tensors by name (`input_ids`, `attention_mask`) says so with `inputs`,
    and is asked with one packed tensor `(n, inputs.width)` or with a mapping. `architecture` names how to build the
    module again (`package.module:factory` and its arguments) and is needed only for `save`.

    >>> module = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    >>> model = Model(module, input_shape=(2, 2), classes=("a", "b", "c"))
    >>> model.predict(torch.zeros(5, 2, 2)).shape
    torch.Size([5])
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        classes: Sequence[str] | int,
        input_shape: Sequence[int] | None = None,
        inputs: Nest | None = None,
        preprocessing: Preprocessing | None = None,
        bounds: tuple[float, float] | None = (0.0, 1.0),
        architecture: str | None = None,
        arguments: dict[str, Any] | None = None,
        guarantee: Guarantee | None = None,
        device: str | torch.device = "cpu",
    ) -> None:
        if inputs is not None and inputs.free() is not None:
            bounds = None  # token ids and masks have none
        self.card = Card(
            shape_of(input_shape, inputs),
            class_names(classes),
            preprocessing if preprocessing is not None else Preprocessing(),
            bounds,
            architecture,
            dict(arguments or {}),
            inputs,
            guarantee,
        )
        # The parameters that a factory drew at random, until they are trained.
        self.untrained: tuple[str, ...] = ()
        self.device = torch.device(device)
        # What torch.compile wraps has the same weights; compiled, it rounds otherwise and its places have other names.
        module = getattr(module, "_orig_mod", module)
        try:
            self.module = module.to(self.device).eval()
        except NotImplementedError as error:  # what torch.export's module() says to eval()
            raise ModelError(
                "An exported program cannot switch between train and eval mode. Save it with torch.export.save and "
                'read it with Model.load("model.pt2").'
            ) from error
        self._preprocess = self.card.preprocessing.module(self.input_shape).to(self.device, self.dtype).eval()
        self.module = adapt(self.module, inputs, self.preprocess(self.probe()), len(self.classes))
        self.access: Access = access_of(self.module)
        self._one_path = slices.one_path(self.module)

    def mark_trained(self, parameters: Iterable[nn.Parameter]) -> None:
        """Say that these parameters are not random any more."""
        trained = {id(parameter) for parameter in parameters}
        named = self.module.named_parameters()
        self.untrained = tuple(name for name, each in named if name in self.untrained and id(each) not in trained)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What every result of this model should say about it."""
        if not self.untrained:
            return ()
        shown = ", ".join(self.untrained[:3]) + (" …" if len(self.untrained) > 3 else "")
        return (
            f"The model is untrained: its factory drew {len(self.untrained)} of its "
            f"{len(list(self.module.parameters()))} parameters at random ({shown}), and no weights were given.",
        )

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return self.card.input_shape

    @property
    def nest(self) -> Nest | None:
        """What is packed in an input, where the module takes several tensors by name."""
        return self.card.inputs

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the logits."""
        return self.card.classes

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know about how the model is read."""
        note = self.module.adapted_output.note if isinstance(self.module, Adapter) else ""
        return (note,) if note else ()

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The range that every value of an input lies in, or None where there is none."""
        return self.card.bounds

    def __repr__(self) -> str:
        count = sum(p.numel() for p in self.module.parameters())
        name = type(owner_of(self.module)).__name__
        return f"Model({name}, {self.input_shape} → {len(self.classes)} classes, {count:,} parameters)"

    def _repr_html_(self) -> str:
        return model_html(self)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The bare pass, for inner loops: logits `(n, classes)` with gradients and without checks."""
        with self._one_path():
            logits = self.module(self._preprocess(x))
        assert isinstance(logits, torch.Tensor)
        return logits

    def preprocess(self, x: torch.Tensor) -> torch.Tensor:
        """What the module sees for the owner's input `x`."""
        prepared = self._preprocess(x)
        assert isinstance(prepared, torch.Tensor)
        return prepared

    def logits(self, x: torch.Tensor | Mapping[str, Any]) -> torch.Tensor:
        """Checked logits `(n, classes)` for `x: (n, *input_shape)`, without gradients."""
        x = self.check_inputs(x)
        self.require_eval()
        with torch.no_grad():
            logits = self.forward(x)
        if logits.shape != (len(x), len(self.classes)):
            raise ModelError(
                f"The module should give logits of shape ({len(x)}, {len(self.classes)}), one per class. "
                f"Got {tuple(logits.shape)}. Is the number of classes right?"
            )
        if not torch.isfinite(logits).all():
            raise ModelError("The module gives NaN or infinite logits for finite inputs. Are its weights damaged?")
        return logits

    def probs(self, x: torch.Tensor | Mapping[str, Any]) -> torch.Tensor:
        """Class probabilities `(n, classes)`."""
        return self.logits(x).softmax(dim=1)

    def predict(self, x: torch.Tensor | Mapping[str, Any]) -> torch.Tensor:
        """Predicted labels `(n,)`."""
        return self.logits(x).argmax(dim=1)

    def class_index(self, name: str) -> int:
        """The label of the class called `name`."""
        if name not in self.classes:
            raise unknown_class("The model", name, self.classes)
        return self.classes.index(name)

    def check_inputs(self, x: torch.Tensor | Mapping[str, Any]) -> torch.Tensor:
        """`x` on the model's device, after the checks that keep a wrong input from giving a plausible answer.

        `Data` holds float32; a model of another floating type gets it in its own. Tensors by name are packed.
        """
        return inputs.check_inputs(x, self.card, self.dtype, self.device)

    def require_fit(self, data: Data) -> None:
        """Refuse data that the model was not made for: another shape, other classes, or classes in another order."""
        inputs.require_fit(self.card, data)

    @property
    def dtype(self) -> torch.dtype:
        """The floating type of the weights, and so of the inputs; a packed input is float32 at least."""
        tensors = chain(self.module.parameters(), self.module.buffers())
        found = next((tensor.dtype for tensor in tensors if tensor.is_floating_point()), torch.float32)
        # In half precision, most token ids would be rounded to others.
        return found if self.card.inputs is None else torch.promote_types(found, torch.float32)

    def require_eval(self) -> None:
        """Refuse to answer in train mode, where dropout and batch statistics give other answers each time."""
        modes.require_eval(self.module)

    def frozen(self, seed: int) -> AbstractContextManager[None]:
        """For the time of a method: eval mode and no gradients for the weights; then everything as it was before.

        A module that draws random numbers draws them from `seed`. Restores modes, `requires_grad`, gradients and the
        global random state, also after an exception. Freezing is also what makes a method fast: a backward pass to the
        input then computes no weight gradients.
        """
        return modes.frozen(self.module, self.device, seed)

    def fingerprint(self) -> str:
        """A SHA-256 of the weights, the structure, the preprocessing and the class names."""
        # Of a traced graph, only str shows the code.
        return fingerprint(self.module.state_dict(), json.dumps(self.card.told(), sort_keys=True), str(self.module))

    def slice(
        self,
        name: str,
        *,
        call: int | None = None,
        until: str | slices.Place | None = None,
        skip: Literal["carry", "hold"] = "carry",
    ) -> slices.Slice:
        """Cut the network at the named place: `f = g ∘ h`. See `modelkeep.core.slices`."""
        self._require_parts()
        end = slices.Place(until) if isinstance(until, str) else until
        return slices.cut(self.module, name, self.probe(), before=self._preprocess, call=call, until=end, skip=skip)

    def pieces(self, cuts: Sequence[slices.Place]) -> tuple[Piece, ...]:
        """Cut the network at several places into programs of their own, for several parties to hold."""
        self._require_parts()
        return pieces(self.module, cuts, self.probe(), before=self._preprocess)

    def slices(self) -> tuple[str, ...]:
        """The names at which the network can be cut, in the order in which they are computed."""
        self._require_parts()
        return slices.places(self.module, self.preprocess(self.probe()))

    def _require_parts(self) -> None:
        require_access(self.access, "weights", "A slice of the network")
        self.require_eval()

    def at_embedding(self) -> Model:
        """The model as a function of its embedded tokens. See `modelkeep.core.embedding.at_embedding`."""
        return embedding.at_embedding(self)

    def embed(self, data: Data) -> Data:
        """The data for `at_embedding()`: each token with its embedding beside it."""
        return embedding.embed(self, data)

    def probe(self) -> torch.Tensor:
        """Two inputs `(2, *input_shape)` of seeded noise within the bounds, to try the network on."""
        return inputs.draw_probe(self.card, self.dtype, self.device)

    @classmethod
    def load(
        cls,
        source: str | Path,
        *,
        weights: str | Path | None = None,
        like: Data | None = None,
        describe: str | Path | None = None,
        device: str | torch.device | None = None,
        **card: Any,
    ) -> Model:
        """Read a model from a `.safetensors`, `.pt2` or `.onnx` file or a folder of Hugging Face, or build it.

        A model is built from `package.module:factory`. `card` says what the file does not (`classes=…, input_shape=…`);
        so does a `model.toml` beside it, or the file `describe`; see `modelkeep.core.formats.read`. With `like`, what
        is not given is taken from data that the model was made for: its shape, its classes and its bounds.
        """
        defaults: dict[str, Any] = {}
        if like is not None:
            defaults = {"input_shape": like.input_shape, "classes": like.classes, "bounds": like.bounds}
            if like.nest is not None:
                defaults["inputs"] = like.nest
        read = formats.read(source, weights=weights, card=card, defaults=defaults, describe=describe)
        return cls.of_reading(read, device)

    @classmethod
    def of_reading(cls, read: formats.Reading, device: str | torch.device | None = None) -> Model:
        """The model that was read, tried once; `device` goes before what its description says."""
        model = cls.from_card(*read.open(), device if device is not None else read.device or "cpu")
        model.untrained = read.drawn
        model._try_once()
        return model

    @classmethod
    def answering(
        cls,
        answers: Any,
        *,
        input_shape: Sequence[int] | None = None,
        classes: Sequence[str] | int | None = None,
        gives: Gives | Kind = "scores",
        bounds: tuple[float, float] | None = None,
    ) -> Model:
        """Something that only answers as a model: methods that need no more than its scores or labels take it.

        `answers` is a function of an array `(n, *input_shape)` that gives scores `(n, classes)` or labels `(n,)`, a
        fitted scikit-learn estimator or pipeline, or the URL of a model behind the Open Inference Protocol. The latter
        two say their shape and classes themselves. Whether scores are probabilities or logits is found out on a few
        inputs unless `gives` says it. The fingerprint is that of the description alone.

        >>> model = Model.answering(lambda x: x @ [[1.0, 0.0], [0.0, 1.0]], input_shape=(2,), classes=("a", "b"))
        >>> model.access, model.predict(torch.tensor([[0.2, 0.7]])).tolist()
        ('scores', [1])
        """
        return cls.from_card(*open_answerer(answers, gives, input_shape=input_shape, classes=classes, bounds=bounds))

    def _try_once(self) -> None:
        """Run the probe, to find out now and not in the middle of an audit whether module and card fit."""
        try:
            self.logits(self.probe())
        except RuntimeError as error:
            raise ModelError(
                f"The module cannot be run on inputs of shape {self.input_shape}: {error}. Is input_shape right?"
            ) from error

    @classmethod
    def from_card(cls, module: nn.Module, card: Card, device: str | torch.device = "cpu") -> Model:
        """The module with a card that is already there."""
        return cls(module, **{f.name: getattr(card, f.name) for f in fields(card)}, device=device)

    def save(self, path: str | Path) -> Path:
        """Write weights and card to one `.safetensors` file, atomically."""
        require_access(self.access, "weights", "A saved file")
        return formats.write(Path(path), self.module, self.card)

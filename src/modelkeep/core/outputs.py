"""Outputs: how logits are read from what a module gives, found out on one probe; what is no classifier is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import fx
from torch.overrides import TorchFunctionMode

from modelkeep.core.errors import ModelError, Remedy

Head = Literal["none", "softmax", "log-softmax", "sigmoid"]

_HEADS: dict[str, Head] = {
    "softmax": "softmax",
    "log_softmax": "log-softmax",
    "sigmoid": "sigmoid",
    "special_expit": "sigmoid",
    "special_softmax": "softmax",
    "special_log_softmax": "log-softmax",
}
_MODULES: dict[type, Head] = {
    torch.nn.Softmax: "softmax",
    torch.nn.LogSoftmax: "log-softmax",
    torch.nn.Sigmoid: "sigmoid",
}
# They move or round numbers one by one, so what they do to probabilities can be done to the logits.
_SHAPES = ("squeeze", "unsqueeze", "view", "reshape", "flatten", "contiguous", "__getitem__", "select", "to", "float")
_SUPPORTED = (
    "ModelKeep works on classifiers, which give one logit per class; docs/formats.md, 'Supported and not supported', "
    "lists them."
)


@dataclass(frozen=True)
class Output:
    """Where the logits stand in what a module gives, and what its last step made of them.

    `place` is "" for the tensor itself, an attribute (".logits"), a key ("logits") or a position (0). `undone` says
    that the input of the head is taken, which is exact; without it, the logarithm of the probabilities is. `single` is
    one number for two classes.
    """

    place: str | int = ""
    head: Head = "none"
    undone: bool = False
    single: bool = False

    @property
    def plain(self) -> bool:
        """Whether the module gives logits as they are."""
        return self == Output()

    @property
    def note(self) -> str:
        """What a user should know, if anything."""
        if self.head == "none" or self.undone:
            return ""
        return (
            f"The module gives probabilities ({self.head}), and the logits before them cannot be taken: ModelKeep "
            "works with their logarithm, whose gradients vanish where a probability rounds to 0 or 1."
        )

    def read(self, returned: Any, seen: LastHead | None) -> torch.Tensor:
        """The logits `(n, classes)`."""
        value: Any = self.pick(returned)
        if self.undone:
            assert seen is not None
            value = _traced_source(value) if isinstance(value, fx.Proxy) else seen.source_of(value)
        elif self.head == "sigmoid":
            value = value.clamp(1e-38, 1 - 2**-24)
            value = value.log() - (-value).log1p()
        elif self.head == "softmax":
            value = value.clamp_min(1e-38).log()
        if self.single:
            value = value.reshape(-1, 1)
            value = torch.cat([torch.zeros_like(value), value], dim=1)
        logits: torch.Tensor = value
        return logits

    def pick(self, returned: Any) -> Any:
        """The tensor at the place."""
        if self.place == "":
            return returned
        if isinstance(self.place, str) and self.place.startswith("."):
            return getattr(returned, self.place[1:])
        return returned[self.place]


class LastHead(TorchFunctionMode):
    """Watches a pass for the last softmax, log-softmax or sigmoid, and keeps what went in.

    Only the last one is kept: a transformer computes a softmax in every layer, and their inputs are large.
    """

    def __init__(self) -> None:
        super().__init__()
        self.head: Head = "none"
        self._result: Any = None
        self._source: Any = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the function, and look at it where it is a head or moves the result of one."""
        named = kwargs or {}
        result = func(*args, **named)
        name = getattr(func, "__name__", "").split(".")[0]
        head = _HEADS.get(name.removeprefix("_"))
        if head is not None:
            self.head, self._result = head, result
            self._source = args[0] if args else named.get("input")
        elif name in _SHAPES and args and args[0] is self._result and self._result is not None:
            self._source, self._result = func(self._source, *args[1:], **named), result
        return result

    def made(self, value: torch.Tensor) -> bool:
        """Whether the last head gave this very tensor."""
        return self._source is not None and value is self._result

    def source_of(self, value: torch.Tensor) -> torch.Tensor:
        """What went into the head that gave `value`."""
        if not self.made(value):
            raise ModelError("The network took another way than on the probe: its output does not come from its head.")
        source: torch.Tensor = self._source
        return source.to(value.dtype)


def _traced_source(value: fx.Proxy) -> Any:
    """The same where torch.fx follows the network: the head is the last node of the graph, and its input is wanted."""
    node = value.node
    called = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    if node.op == "call_module":
        root: Any = value.tracer.root  # type: ignore[attr-defined]
        known = type(root.get_submodule(str(node.target))) in _MODULES
    else:
        known = called.removeprefix("_") in _HEADS
    source = node.args[0] if known and node.args else None
    if not isinstance(source, fx.Node):
        raise TypeError("the head of the network is not the last node of its graph")  # the slice is then made by hooks
    found = value.tracer.proxy(source)
    node.graph.erase_node(node)  # nothing uses the head any more
    return found


def find_output(returned: Any, seen: LastHead, n: int, classes: int) -> Output:
    """How to read what a module gave for a probe of `n` examples; ModelError names what is no classifier."""
    place = _place(returned, n, classes)
    value = Output(place).pick(returned)
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        raise _unreadable(value)
    shape = tuple(value.shape)
    if shape in ((n,), (n, 1)):
        return _single(place, value, seen, classes)
    if len(shape) != 2:
        raise _other_task(shape)
    if seen.made(value):
        if seen.head == "sigmoid":
            raise ModelError(
                f"The module is a multi-label classifier: it gives {shape[1]} sigmoids per example, which are not "
                f"alternatives. {_SUPPORTED} Give one label at a time: a module of one sigmoid, with two classes."
            )
        return Output(place, seen.head, undone=True)
    return Output(place, "softmax" if _are_probabilities(value) else "none")


def _single(place: str | int, value: torch.Tensor, seen: LastHead, classes: int) -> Output:
    if classes != 2:
        raise ModelError(
            f"The module is a regression: it gives one number per example, and not one for each of the {classes} "
            f"classes. {_SUPPORTED} One number is enough for two classes:",
            remedy=Remedy("Model(…, classes=('no', 'yes')).", "--classes no,yes."),
        )
    if seen.made(value):
        # The softmax of one number is 1 for every input: that is a mistake, not a head.
        return Output(place, "sigmoid" if seen.head == "sigmoid" else "none", seen.head == "sigmoid", single=True)
    # One number between 0 and 1 may well be a logit; only a sigmoid in the pass tells.
    unsure = seen.head == "sigmoid" and bool(((value >= 0) & (value <= 1)).all())
    return Output(place, "sigmoid" if unsure else "none", single=True)


def _place(returned: Any, n: int, classes: int) -> str | int:
    if isinstance(returned, torch.Tensor):
        return ""
    _refuse_detection(returned)
    if isinstance(getattr(returned, "logits", None), torch.Tensor):
        return ".logits"
    if isinstance(returned, Mapping) and isinstance(returned.get("logits"), torch.Tensor):
        return "logits"
    if isinstance(returned, tuple | list):
        fitting = [(n, classes), *([(n,), (n, 1)] if classes == 2 else [])]
        for i, part in enumerate(returned):
            if isinstance(part, torch.Tensor) and tuple(part.shape) in fitting:
                return i
    raise _unreadable(returned)


def _refuse_detection(returned: Any) -> None:
    parts = returned if isinstance(returned, tuple | list) else [returned]
    named = {key for part in parts if isinstance(part, Mapping) for key in part}
    if named & {"boxes", "pred_boxes"} or hasattr(returned, "pred_boxes"):
        raise ModelError(f"The module detects objects: it gives boxes. {_SUPPORTED}")


def _other_task(shape: tuple[int, ...]) -> ModelError:
    if len(shape) == 3:
        return ModelError(
            f"The module generates or tags a sequence: it gives {shape[2]} numbers for each of {shape[1]} places. "
            f"{_SUPPORTED} For a text classifier, load the network with its classification head."
        )
    if len(shape) == 4:
        return ModelError(f"The module segments pictures: it gives {shape[1:]} numbers per example. {_SUPPORTED}")
    return ModelError(f"The module gives numbers of shape {shape}. {_SUPPORTED}")


def _unreadable(value: Any) -> ModelError:
    if isinstance(value, torch.Tensor):
        return ModelError(
            f"The module gives {value.dtype}, not logits. {_SUPPORTED} If these are labels, say so: "
            'Model.answering(function, input_shape=…, classes=…, gives="labels").'
        )
    keys = list(value) if isinstance(value, Mapping) else []
    if "last_hidden_state" in keys:
        return ModelError(
            f"The module is an encoder without a classification head: it gives {', '.join(keys)}. {_SUPPORTED} Load it "
            "with its head (AutoModelForSequenceClassification), or put one on it."
        )
    what = f"a {type(value).__name__}" + (f" with {', '.join(map(str, keys))}" if keys else "")
    return ModelError(
        f"The module gives {what}, in which there are no logits. {_SUPPORTED} Return a tensor, something with "
        "`logits`, or a tuple that holds a tensor of shape (n, classes)."
    )


def _are_probabilities(values: torch.Tensor) -> bool:
    ones = torch.ones_like(values[:, 0])
    return bool((values >= 0).all()) and torch.allclose(values.sum(dim=1), ones, atol=1e-4)

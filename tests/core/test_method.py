"""A method is declared once: its settings are checked, and its result says how to repeat it."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, dataclass
from shlex import split

import pytest
import torch

from modelkeep import Data, Estimate, Model, Result
from modelkeep.core.errors import InputError
from modelkeep.core.method import (
    check_settings,
    command_of,
    declaration_of,
    declare,
    options_of,
    python_of,
    setting,
    settings_of,
)
from modelkeep.core.results import measured


@dataclass(frozen=True, kw_only=True, eq=False)
class Confidence(Result, kind="test-confidence"):
    mean: Estimate

    def rows(self) -> list[tuple[str, str]]:
        return [("mean", str(self.mean))]


@dataclass(frozen=True, kw_only=True)
class Asking:
    """What several methods share; it is not declared itself."""

    share: float = setting("How much of the data is asked about.", default=1.0, above=0, at_most=1)

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Confidence:
        with measured(seed) as provenance:
            count = max(1, int(self.share * len(data)))
            highest = model.probs(data.x[:count]).amax(dim=1)
            return Confidence(provenance=provenance(), mean=Estimate.bootstrap(highest.double().numpy(), seed))


@declare("test", "confidence", access="scores", paper="Leino2022, eq. 6.2")
class MeanConfidence(Asking):
    """The mean probability of the predicted class.

    A second paragraph.
    """

    mode: str = setting("Which mean.", default="plain", choices=("plain", "trimmed"))
    most: int | None = setting("At most as many examples.", default=None, at_least=1)
    mask: torch.Tensor | None = setting("Where to look.", default=None)


@declare("test", "reaching")
class Reaching:
    """Moves towards a class."""

    target: str = setting("The class to reach.")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"share": 0.0}, "The 'share' parameter of MeanConfidence must be above 0 and at most 1. Got 0.0 instead."),
        ({"share": math.nan}, "must be above 0 and at most 1. Got nan"),
        ({"share": "all"}, "must be above 0 and at most 1. Got 'all'"),
        ({"mode": "odd"}, "must be one of 'plain', 'trimmed'. Got 'odd'"),
        ({"most": 0}, "must be at least 1. Got 0"),
    ],
)
def test_a_setting_out_of_its_range_is_refused(given: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        MeanConfidence(**given)  # type: ignore[arg-type]


def test_a_method_is_frozen_and_keyword_only() -> None:
    with pytest.raises(FrozenInstanceError):
        MeanConfidence().share = 0.5  # type: ignore[misc]
    with pytest.raises(TypeError):
        MeanConfidence(0.5)  # type: ignore[call-arg]


def test_the_declaration_stands_on_the_class() -> None:
    told = declaration_of(MeanConfidence())
    assert told is not None
    assert (told.family, told.name, told.access, told.paper) == ("test", "confidence", "scores", "Leino2022, eq. 6.2")
    assert told.does == "The mean probability of the predicted class."
    assert declaration_of(Asking()) is None


def test_options_have_types_defaults_and_documentation() -> None:
    share, mode, most, mask = options_of(MeanConfidence)
    assert (share.name, share.type, share.default, share.setting.doc) == (
        "share",
        float,
        1.0,
        "How much of the data is asked about.",
    )
    assert mode.setting.choices == ("plain", "trimmed")
    assert most.type == int | None
    assert not mask.required


def test_a_result_says_how_to_repeat_it(small_cnn: Model) -> None:
    data = Data(torch.rand(6, 1, 8, 8), torch.arange(6) % 4, small_cnn.classes)
    method = MeanConfidence(share=0.5, mask=torch.ones(2))
    result = method(small_cnn, data, seed=3)
    assert result.provenance.method == "test/confidence"
    assert result.provenance.settings["share"] == 0.5
    assert result.python == "MeanConfidence(share=0.5, mask=…)(model, data, seed=3)"
    assert result.command == "modelkeep test MODEL --data DATA --method confidence --share 0.5 --mask … --seed 3"
    assert Confidence.from_json(result.to_json()).command == result.command
    printed = " ".join(str(result).split())
    assert f"again: {result.command}" in printed


def test_settings_of_a_method_are_json_and_python_makes_it_again() -> None:
    method = MeanConfidence(share=0.25, most=3)
    assert settings_of(method) == {"share": 0.25, "mode": "plain", "most": 3, "mask": None}
    assert eval(python_of(method)) == method
    assert command_of(method) == "--share 0.25 --most 3"
    check_settings(method)


def test_a_command_can_be_pasted_into_a_shell_whatever_a_setting_says() -> None:
    assert split(command_of(Reaching(target="a dog; true $(true)"))) == ["--target", "a dog; true $(true)"]

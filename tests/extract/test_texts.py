"""A text model is copied through its answers by an LSTM over its words, and its bias is measured."""

from __future__ import annotations

import random
from pathlib import Path

from modelkeep import Model
from modelkeep.bias import MeasureAmplification
from modelkeep.core.access import Scores
from modelkeep.extract import Extract, Knockoff
from modelkeep.extract.substitute import train_substitute
from modelkeep.extract.target import Asked
from modelkeep.training import Recipe
from texts import VALUES, sentences, sentiment


def _texts(count: int) -> tuple[str, ...]:
    draw = random.Random(0)
    words = list(VALUES)
    return tuple(" ".join(draw.choice(words) for _ in range(draw.randint(3, 5))) for _ in range(count))


def test_a_copy_answers_as_the_target_does(tmp_path: Path) -> None:
    target = sentiment()
    pool, test = sentences(target, _texts(400)).split(0.5, 0.5, seed=0)
    recipe = Recipe(epochs=25, learning_rate=0.02, batch_size=32)
    found = Extract(pool, Knockoff(len(pool)), recipe=recipe, clean=target)(Scores(target), test, seed=0)
    assert found.fidelity.low > 0.8  # the two classes are about as frequent
    copy = train_substitute(Scores(target), pool.x, target.probs(pool.x), recipe=Recipe(steps=1), seed=0)
    assert copy.nest == target.nest
    again = Model.load(copy.save(tmp_path / "copy.safetensors"))
    assert again.fingerprint() == copy.fingerprint()


def test_a_target_that_only_answers_is_copied_by_a_reader_of_words() -> None:
    """A remote target says how many numbers it takes; the thief knows which of them are words."""
    owner = sentiment()
    pool = sentences(owner, _texts(40))
    target = Asked(owner.probs, input_shape=owner.input_shape, classes=owner.classes, returns="probabilities")
    found = Extract(pool, Knockoff(20), recipe=Recipe(steps=1))(target, pool, seed=0)
    assert found.substitute.nest == owner.nest
    assert found.substitute.card.architecture == "modelkeep.architectures:text_lstm"


def test_bias_is_measured_at_the_last_slice() -> None:
    model = sentiment()
    found = MeasureAmplification(slice="mean")(model, sentences(model, _texts(60)))
    assert abs(found.amplification.value) < 1e-6  # it is right everywhere, so it predicts as often as occurs

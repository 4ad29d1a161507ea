"""Shadow models as a stack against a loop, RMIA against ART's black-box attack, and a private step against Opacus's.

The target and its 16 shadows learn digits with a tenth of the labels wrong: such a network has something to hide. The
loop trains the same networks one after the other; `stack_error` is the largest difference of a weight between the two.
ART's attack learns from the answers of all shadow models and, as ours, sees only probabilities of the target.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import nn

from _dp_sgd import measure
from _measure import arguments, interleaved, report
from modelkeep import Data, Model, datasets
from modelkeep.privacy import RMIA, Knowledge, LiRA, Loss
from modelkeep.privacy.membership.attack import probabilities
from modelkeep.privacy.shadows import join, plan_shadows
from modelkeep.privacy.stack import train_stacked
from modelkeep.training import SGD, Recipe, cross_entropy, fit
from modelkeep.training.fresh_network import copy_untrained

SHADOWS = 16
NOISE = 0.1
RECIPE = Recipe(
    epochs=40, batch_size=32, learning_rate=0.05, optimizer=SGD(momentum=0.9, nesterov=True, weight_decay=1e-4)
)


def noisy_digits(seed: int) -> Data:
    """All digits, a tenth of them with a random label."""
    data = join([datasets.load("digits", "train"), datasets.load("digits", "test")])
    generator = torch.Generator().manual_seed(seed)
    wrong = torch.rand(len(data), generator=generator) < NOISE
    return replace(data, y=torch.where(wrong, torch.randint(0, 10, data.y.shape, generator=generator), data.y))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def cnn() -> nn.Module:
    layers = [nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 10))


def network(make: Callable[[], nn.Module], data: Data, seed: int) -> Model:
    torch.manual_seed(seed)
    return Model(make(), input_shape=data.input_shape, classes=data.classes, bounds=data.bounds)


def time_stack(make: Callable[[], nn.Module], data: Data, epochs: int, seed: int) -> tuple[float, float]:
    """How many times faster the stack is, and the largest difference of a weight."""
    target, recipe = network(make, data, seed), replace(RECIPE, epochs=epochs)
    plan = plan_shadows(len(data), SHADOWS, seed)
    trained: dict[str, list[Model]] = {}

    def stacked() -> None:
        models = trained["stack"] = [copy_untrained(target, each) for each in plan.seeds]
        train_stacked(models, data, plan.rows, recipe, plan.seeds)

    def looped() -> None:
        models = trained["loop"] = [copy_untrained(target, each) for each in plan.seeds]
        for model, rows, each in zip(models, plan.rows, plan.seeds, strict=True):
            fit(model, data.take(rows), cross_entropy, recipe, seed=each)

    seconds = interleaved({"stack": stacked, "loop": looped}, repeats=3)
    pairs = zip(trained["stack"], trained["loop"], strict=True)
    error = max(
        float((p - q).detach().abs().max())
        for one, two in pairs
        for p, q in zip(one.module.parameters(), two.module.parameters(), strict=True)
    )
    return seconds["loop"] / seconds["stack"], error


def art_auc(target: Model, members: Data, non_members: Data, knowledge: Knowledge, seed: int) -> float:
    """The area of ART's black-box attack, a network that learns from the shadows' answers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from art.attacks.inference.membership_inference import MembershipInferenceBlackBox
        from art.estimators.classification import PyTorchClassifier

        estimator = PyTorchClassifier(
            target.module,
            nn.CrossEntropyLoss(),
            target.input_shape,
            len(target.classes),
            clip_values=target.bounds,
        )
        held = knowledge.hold_out
        shadows = knowledge.shadows("art", target, held, SHADOWS, seed)
        answers = torch.cat([probabilities(model, held) for model in shadows.models]).float().numpy()
        labels, inside = held.y.repeat(SHADOWS).numpy(), shadows.inside.flatten().numpy()
        attack = MembershipInferenceBlackBox(estimator, attack_model_type="nn", nn_model_epochs=20)
        torch.manual_seed(seed)
        attack.fit(y=labels[inside], pred=answers[inside], test_y=labels[~inside], test_pred=answers[~inside])
        pile = join([members, non_members])
        scores = attack.infer(
            pile.x.numpy(), pile.y.numpy(), pred=probabilities(target, pile).float().numpy(), probabilities=True
        )
    truth = np.repeat([1, 0], [len(members), len(non_members)])
    return float(roc_auc_score(truth, np.asarray(scores).reshape(len(truth), -1)[:, -1]))


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    torch.set_num_threads(1)
    data = noisy_digits(options.seed)
    speed_mlp, error_mlp = time_stack(mlp, data, 10, options.seed)
    speed_cnn, error_cnn = time_stack(cnn, data, 2, options.seed)
    members, non_members, hold_out = data.split(0.25, 0.25, 0.5, seed=options.seed)
    target, knowledge = network(mlp, data, options.seed), Knowledge(hold_out, RECIPE)
    fit(target, members, cross_entropy, RECIPE, seed=options.seed)
    found = {
        name: attack(target, members, non_members, knowledge, seed=options.seed)
        for name, attack in {"rmia": RMIA(), "lira": LiRA(), "loss": Loss(), "rmia_offline": RMIA(online=False)}.items()
    }
    art = art_auc(target, members, non_members, knowledge, options.seed)
    figures = {
        **measure(options.seed),
        "stacked_speedup_mlp": speed_mlp,
        "stacked_speedup_cnn": speed_cnn,
        "stack_error": max(error_mlp, error_cnn),
        **{f"{name}_auc": each.auc.value for name, each in found.items()},
        "art_auc": art,
        "rmia_auc_minus_art": found["rmia"].auc.value - art,
    }
    report(figures, options.json)


if __name__ == "__main__":
    main()

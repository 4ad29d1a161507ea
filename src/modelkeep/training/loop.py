"""The one training loop: whatever trains a model is an objective and a recipe given to `fit`."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from pydantic import TypeAdapter
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from modelkeep.core import progress
from modelkeep.core.black_box import require_access
from modelkeep.core.data import Data
from modelkeep.core.errors import CheckpointError, InputError, TrainingError
from modelkeep.core.model import Model
from modelkeep.core.results import Provenance
from modelkeep.core.version import __version__
from modelkeep.training import checkpoint as checkpoints
from modelkeep.training import interruption, parallel
from modelkeep.training.batches import Batches, derive_seed, part_seed, parts_of
from modelkeep.training.checkpoint import Snapshot
from modelkeep.training.evaluation import evaluate
from modelkeep.training.feed import Feed
from modelkeep.training.history import Evaluation, Fitted, Meter, best_of
from modelkeep.training.objectives import Objective, OwnGradients, Stateful, Watchful, gradients_of, name_of
from modelkeep.training.part import load_into, tensors_of, train_mode, training_part
from modelkeep.training.recipe import Recipe
from modelkeep.training.schedules import Step, at


def fit(
    model: Model,
    data: Data,
    objective: Objective | OwnGradients,
    recipe: Recipe,
    *,
    seed: int = 0,
    held_out: Data | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = 60.0,
) -> Fitted:
    """Train `model.module` in place and leave it in eval mode.

    With a `checkpoint` path the state of the run is written there every `checkpoint_seconds`, after Ctrl-C and at
    the end; called again with the same arguments, `fit` goes on from it and ends with the same bits as a run that
    was never stopped (on one kind of machine, with deterministic kernels), or returns at once if it had ended. In
    a `torch.distributed` process group each process takes its share of every batch.

    >>> from modelkeep.training import cross_entropy
    >>> data = Data(torch.eye(4), torch.arange(4) % 2, ("even", "odd"))
    >>> model = Model(nn.Linear(4, 2), input_shape=(4,), classes=data.classes)
    >>> fitted = fit(model, data, cross_entropy, Recipe(epochs=50, learning_rate=0.1), seed=0)
    >>> fitted.stopped, bool((model.predict(data.x) == data.y).all())
    ('all 50 steps done', True)
    """
    require_access(model.access, "weights", "Training", " Train a copy of it: modelkeep.extract.")
    model.require_fit(data)
    if held_out is not None:
        model.require_fit(held_out)
    elif recipe.early_stop is not None:
        raise InputError("Early stopping needs held-out data to measure. Give held_out=…, or a recipe without it.")
    path = None if checkpoint is None else Path(checkpoint)
    with training_part(model, recipe) as parameters:
        run = _Run(model, data, objective, recipe, seed, held_out, parameters)
        run.start(path)
        with (
            closing(run.feed),
            interruption.hold_back(path is not None) as interrupted,
            progress.task("training", run.total) as task,
        ):
            task.advance(run.step)
            written = shown = perf_counter()
            while not run.stopped and not interrupted():
                try:
                    run.take_step()
                    if run.evaluation_due():
                        run.evaluate()
                except TrainingError as error:
                    error.history = tuple(run.history)
                    raise
                now = perf_counter()
                if run.stopped or interrupted() or now - written >= checkpoint_seconds:
                    run.write(path)
                    written = perf_counter()
                if run.stopped or now - shown >= 0.2:  # showing every step would cost more than many steps
                    task.advance(run.step - task.done, run.note)
                    shown = now
        model.mark_trained(parameters)
        return run.fitted()


class _Run:
    """A training under way: what it needs at every step, and the state that a checkpoint keeps."""

    def __init__(
        self,
        model: Model,
        data: Data,
        objective: Objective | OwnGradients,
        recipe: Recipe,
        seed: int,
        held_out: Data | None,
        parameters: list[nn.Parameter],
    ) -> None:
        self.model, self.held_out = model, held_out
        self.objective, self.recipe, self.seed = objective, recipe, seed
        self.parameters = parameters
        self.group = parallel.group()
        if self.group.size > 1 and isinstance(objective, OwnGradients | Stateful):
            raise InputError("An objective that keeps state or computes its own gradients trains in one process only.")
        if recipe.micro_batches > 1 and isinstance(objective, OwnGradients):
            raise InputError("An objective that computes its own gradients needs whole batches: micro_batches=1.")
        self.batches = Batches(len(data), recipe, seed)
        self.total = recipe.total(self.batches.per_epoch)
        self.feed = Feed(data, self.batches, model.dtype, self.total)
        self.optimizer = recipe.optimizer.build(parameters)
        self.differentiate = gradients_of(objective)
        self.on_cpu = model.device.type == "cpu"
        self.generator = torch.Generator(model.device)
        self.objective_seed = derive_seed(seed, "objective", self.group.rank)
        self.modules_seed = derive_seed(seed, "modules", self.group.rank)
        self.meter = Meter(model.device)
        # Batch norm normalises each process's share by its own statistics, as torch's DistributedDataParallel has it;
        # its running statistics become the mean of all shares'.
        self.statistics = [
            buffer
            for part in model.module.modules()
            if isinstance(part, _BatchNorm) and part.training
            for buffer in part.buffers(recurse=False)
            if buffer.is_floating_point()
        ]
        self.identity: dict[str, Any] = {
            "model": model.fingerprint(),
            "data": data.fingerprint(),
            "held_out": None if held_out is None else held_out.fingerprint(),
            "objective": name_of(objective),
            "seed": seed,
            "processes": self.group.size,
            **{f"recipe.{name}": value for name, value in recipe.to_json().items()},
        }
        if getattr(objective, "made_for", self.identity["data"]) != self.identity["data"]:
            raise InputError(f"The objective holds answers to other data than '{data.name}'. Make it for these data.")
        # The state, with the module's and the optimizer's.
        self.step = 0
        self.learning_rate = 0.0
        self.history: list[Evaluation] = []
        self.best: dict[str, torch.Tensor] = {}
        self.stopped = ""
        self.began = perf_counter()
        self.note = ""

    def take_step(self) -> None:
        """One update of the weights."""
        model, number = self.model, self.step
        x, y, index = self.feed.batch(number)
        if not self.on_cpu:
            x, y = x.to(model.device), y.to(model.device)
        if self.recipe.augmentation is not None:
            x = self.batches.augment(x, number, model.bounds)
        if self.group.size > 1:
            x, y, index, weight = *map(self.group.shard, (x, y, index)), self.group.weight(len(index))
        self.learning_rate = at(self.recipe.learning_rate, Step(number, self.total, self.batches.per_epoch))
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate
        for parameter in self.parameters:
            parameter.grad = None
        values = self.gradients(x, y, index)
        if self.group.size > 1:
            gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
            self.group.average([*gradients, *self.statistics, *values.values()], weight)
        self.meter.add(number, self.learning_rate, values)
        self.optimizer.step()
        self.step += 1

    def gradients(self, x: torch.Tensor, y: torch.Tensor, index: torch.Tensor) -> dict[str, torch.Tensor]:
        """Leave the batch's gradient in the parameters, one micro-batch after the other; the means over the batch."""
        means: dict[str, torch.Tensor] = {}
        parts = zip(*(parts_of(tensor, self.recipe.micro_batches) for tensor in (x, y, index)), strict=True)
        for part, (some_x, some_y, rows) in enumerate(parts):
            self.generator.manual_seed(part_seed(self.objective_seed, self.step, part))
            seed = part_seed(self.modules_seed, self.step, part)
            # What dropout draws from. `torch.manual_seed` does it for all devices, and takes a hundred times longer.
            torch.default_generator.manual_seed(seed)
            if not self.on_cpu:
                torch.cuda.manual_seed(seed)
            step = Step(self.step, self.total, self.batches.per_epoch, rows, self.generator)
            share = len(rows) / len(index) if len(rows) < len(index) else 1.0
            values = self.differentiate(self.model, some_x, some_y, step, share)
            if share == 1.0:
                return values
            means = {name: means.get(name, 0) + share * value for name, value in values.items()}
        return means

    def evaluation_due(self) -> bool:
        """Whether a row of the history is due after the last step."""
        return self.step % (self.recipe.evaluate_every or self.batches.per_epoch) == 0 or self.step == self.total

    def evaluate(self) -> None:
        """Write a row of the history, and stop where the run is complete or no longer gets better."""
        means = self.meter.means()
        if not all(bool(parameter.isfinite().all()) for parameter in self.parameters):
            raise TrainingError(f"The weights are no longer finite after step {self.step}. Lower the learning rate.")
        loss = accuracy = None
        if self.held_out is not None:
            self.model.module.eval()
            # Without gradients only two layers' values are alive at a time: four batches fit where one trains.
            loss, accuracy = evaluate(self.model, self.held_out, 4 * self.recipe.batch_size, self.group)
            train_mode(self.model.module, self.recipe)
        epoch, seconds = self.step / self.batches.per_epoch, perf_counter() - self.began
        train_loss = means.pop("loss")
        row = Evaluation(self.step, epoch, self.learning_rate, train_loss, loss, accuracy, means, seconds)
        self.history.append(row)
        self.note = f"loss {train_loss:.4g}" if accuracy is None else f"held-out accuracy {accuracy.value:.3f}"
        if said := self.warning_of(row):
            self.note = f"{self.note}; {said}"
        stop, last = self.recipe.early_stop, len(self.history) - 1
        best = best_of(self.history, stop)
        if stop is not None and best == last:
            self.best = {name: tensor.clone() for name, tensor in tensors_of(self.model.module).items()}
        if self.step == self.total:
            self.stopped = f"all {self.total} steps done"
        elif stop is not None and last - best >= stop.patience:
            self.stopped = f"no better held-out {stop.metric} in {stop.patience} evaluations"
        if self.stopped and self.best:
            load_into(self.model.module, self.best)

    def warning_of(self, row: Evaluation) -> str:
        """What the objective says of a row of the history; empty where nothing is wrong."""
        return self.objective.warning(row.metrics) if isinstance(self.objective, Watchful) else ""

    def start(self, path: Path | None) -> None:
        """Go on from the checkpoint where there is one; see that one can be written where there is none."""
        payload, origin = None, "The first process's state"
        if path is not None and self.group.rank == 0:
            payload, origin = checkpoints.read(path), f"The checkpoint {path}"
        if self.group.size > 1:
            first = payload if payload is not None else self.snapshot().to_bytes() if self.group.rank == 0 else b""
            payload = self.group.from_first(first, self.model.device)
        if payload is not None:
            self.restore(Snapshot.from_bytes(payload, origin), origin)
        if not self.stopped:
            self.write(path)

    def write(self, path: Path | None) -> None:
        """Write the checkpoint; one process does it for all."""
        if path is not None and self.group.rank == 0:
            checkpoints.write(path, self.snapshot().to_bytes())

    def snapshot(self) -> Snapshot:
        """Everything that the rest of the run depends on."""
        self.meter.read()
        kept: dict[str, Any] = {f"optimizer.{i}": v for i, v in self.optimizer.state_dict()["state"].items()}
        if isinstance(self.objective, Stateful):
            kept["objective"] = self.objective.state_dict()
        kept |= {"module": tensors_of(self.model.module), "best": self.best}
        flat = {f"{part}/{name}": value for part, values in kept.items() for name, value in values.items()}
        return Snapshot(
            {name: value for name, value in flat.items() if isinstance(value, torch.Tensor)},
            {
                "step": self.step,
                "learning_rate": self.learning_rate,
                "history": [asdict(row) for row in self.history],
                "sums": self.meter.sums,
                "stopped": self.stopped,
                "seconds": perf_counter() - self.began,
                "others": {name: value for name, value in flat.items() if not isinstance(value, torch.Tensor)},
            },
            self.identity,
        )

    def restore(self, found: Snapshot, origin: str) -> None:
        """Take over the state of a snapshot of the same run."""
        module = found.part("module/")
        differ = checkpoints.differences(found.identity, self.identity)
        own = tensors_of(self.model.module)
        # After Ctrl-C in a notebook the model at hand is not the one that the run began with, but the one that it
        # had reached; and in a process group the first process's weights count.
        here = module.keys() == own.keys() and all(torch.equal(module[name], own[name].cpu()) for name in own)
        if here or self.group.rank > 0:
            differ.pop("model", None)
        if differ:
            advice = "Give another path, or delete it to train from the start."
            if self.group.rank > 0:
                advice = "Give the same arguments to all processes."
            raise CheckpointError(f"{origin} belongs to another run: {'; '.join(differ.values())}. {advice}")
        self.identity = found.identity
        load_into(self.model.module, module)
        self.best = {name: tensor.to(self.model.device) for name, tensor in found.part("best/").items()}
        kept: dict[str, dict[str, Any]] = {}
        for full, value in {**found.tensors, **found.values["others"]}.items():
            part, _, name = full.partition("/")
            kept.setdefault(part, {})[name] = value
        state = self.optimizer.state_dict()
        state["state"] = {int(p.split(".")[1]): v for p, v in kept.items() if p.startswith("optimizer.")}
        self.optimizer.load_state_dict(state)
        if isinstance(self.objective, Stateful):
            self.objective.load_state_dict(kept.get("objective", {}))
        values = found.values
        self.step, self.learning_rate, self.stopped = values["step"], values["learning_rate"], values["stopped"]
        self.history = TypeAdapter(list[Evaluation]).validate_python(values["history"])
        self.meter.sums = {name: (total, count) for name, (total, count) in values["sums"].items()}
        self.began = perf_counter() - values["seconds"]

    def fitted(self) -> Fitted:
        """The result."""
        identity, seconds = self.identity, perf_counter() - self.began
        # The first of them: a training that once went wrong says it until its end.
        said = [f"Step {row.step}: {what}." for row in self.history if (what := self.warning_of(row))][:1]
        return Fitted(
            provenance=Provenance(
                identity["model"], identity["data"], self.seed, seconds, __version__, warnings=tuple(said)
            ),
            objective=identity["objective"],
            recipe=self.recipe,
            history=tuple(self.history),
            best=best_of(self.history, self.recipe.early_stop),
            stopped=self.stopped,
            model=self.model.fingerprint(),
        )

"""Given: the command line with a model that is there already, for tests of models that no file holds."""

from __future__ import annotations

from modelkeep import Data, Model
from modelkeep.audit.sources import Sources
from modelkeep.cli.forms import CommandLineForms
from modelkeep.web.workspace import NotOpen


class Given(CommandLineForms):
    """Whatever is opened is this model with these data; its training data is not known."""

    def __init__(self, model: Model, data: Data) -> None:
        self.model, self.data = model, data

    def open(self, sources: Sources) -> tuple[Model, Data]:
        return self.model, self.data

    def read_training(self, sources: Sources, like: Data) -> Data:
        raise NotOpen("The training data is not known.")

"""One audit. What importing, building a model and loading data take is not in the list."""

import sys

look = sys.getprofile()
sys.setprofile(None)

import torch

from modelkeep import Model
from modelkeep.audit import Settings, audit
from modelkeep.zoo import datasets
from modelkeep.zoo.architectures import small_cnn

torch.manual_seed(0)
data = datasets.load("digits", "test")
model = Model(small_cnn((1, 8, 8), 10), input_shape=(1, 8, 8), classes=data.classes)
settings = Settings(examples=20, steps=2)
audit(model, data, settings, seed=0)  # imports what is imported late
sys.setprofile(look)
audit(model, data, settings, seed=0)
sys.setprofile(None)

"""One training of a few steps. What importing, building a model and loading data take is not in the list."""

import sys

look = sys.getprofile()
sys.setprofile(None)

from tempfile import TemporaryDirectory

import torch

from modelkeep import Model
from modelkeep.training import Augmentation, Recipe, cross_entropy, fit
from modelkeep.zoo import datasets
from modelkeep.zoo.architectures import small_cnn

torch.manual_seed(0)
data, held_out = datasets.load("digits", "train"), datasets.load("digits", "test")
model = Model(small_cnn((1, 8, 8), 10), input_shape=(1, 8, 8), classes=data.classes)
recipe = Recipe(steps=2, augmentation=Augmentation(shift=0.1))
fit(model, data, cross_entropy, recipe, seed=0, held_out=held_out)  # imports what is imported late
with TemporaryDirectory() as folder:
    sys.setprofile(look)
    fit(model, data, cross_entropy, recipe, seed=0, held_out=held_out, checkpoint=f"{folder}/checkpoint")
    sys.setprofile(None)

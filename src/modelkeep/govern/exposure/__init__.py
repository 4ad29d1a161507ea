"""What a curious party can learn at a cut: the inputs from activations, the labels from gradients; and where to cut."""

from modelkeep.govern.exposure.advice import Advice, AtCut, advise
from modelkeep.govern.exposure.completion import Completing, Completion
from modelkeep.govern.exposure.costs import Costs, Link
from modelkeep.govern.exposure.inversion import Inversion, invert
from modelkeep.govern.exposure.labels import LabelLeak, infer_labels

__all__ = [
    "Advice",
    "AtCut",
    "Completing",
    "Completion",
    "Costs",
    "Inversion",
    "LabelLeak",
    "Link",
    "advise",
    "infer_labels",
    "invert",
]

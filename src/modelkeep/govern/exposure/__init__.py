"""What a curious party can learn at a cut: the inputs from activations, the labels from gradients; and where to cut."""

from modelkeep.govern.exposure.inversion import Inversion, invert

__all__ = ["Inversion", "invert"]

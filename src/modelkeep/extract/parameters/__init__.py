"""Parameter stealing: a small ReLU network from its answers, and lemma 1's bound on how near one comes."""

from modelkeep.extract.parameters.boundaries import Boundaries, uncover
from modelkeep.extract.parameters.comparison import Recovery, compare
from modelkeep.extract.parameters.lemma import Distance, lemma_one
from modelkeep.extract.parameters.theft import Stolen, steal

__all__ = ["Boundaries", "Distance", "Recovery", "Stolen", "compare", "lemma_one", "steal", "uncover"]

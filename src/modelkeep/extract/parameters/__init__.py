"""Parameter stealing: a small ReLU network from its answers, and lemma 1's bound on how near one comes."""

from modelkeep.extract.parameters.comparison import Recovery as Recovery
from modelkeep.extract.parameters.comparison import compare as compare
from modelkeep.extract.parameters.lemma import Distance as Distance
from modelkeep.extract.parameters.lemma import lemma_one as lemma_one
from modelkeep.extract.parameters.theft import Stolen as Stolen
from modelkeep.extract.parameters.theft import steal as steal

"""The page about a model's completion: what each cut protects, in steps, in time and in money."""

from modelkeep.completion.report.page import completion_page
from modelkeep.completion.report.price import Price
from modelkeep.completion.report.words import answer

__all__ = ["Price", "answer", "completion_page"]

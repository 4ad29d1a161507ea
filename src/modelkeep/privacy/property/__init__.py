"""Property inference: what a training set was like, told from the model alone (Leino2022, section 8.5)."""

from __future__ import annotations

from modelkeep.privacy.property.attack import InferProperty
from modelkeep.privacy.property.result import PropertyInferred
from modelkeep.privacy.property.watermarks import Watermark, draw_watermarks

__all__ = ["InferProperty", "PropertyInferred", "Watermark", "draw_watermarks"]

"""The model card as Hugging Face's own library reads it."""

from __future__ import annotations

from huggingface_hub import ModelCard, ModelCardData

from audit.formats.test_markdown import check_document
from modelkeep.audit import Audit
from modelkeep.audit.formats.model_card import write_model_card


def test_hugging_face_reads_the_metadata(written: Audit) -> None:
    card = ModelCard(write_model_card(written))
    assert isinstance(card.data, ModelCardData)
    assert card.data.tags == ["modelkeep", "security-audit"]
    measures = [each for section in written.sections for each in section.measures]
    results = card.data.eval_results or []
    assert [each.metric_value for each in results] == [each.estimate.value for each in measures]
    assert [each.metric_name for each in results] == [" ".join(each.name.split()) for each in measures]


def test_the_text_renders_and_marks_its_gaps(written: Audit) -> None:
    card = ModelCard(write_model_card(written))
    headings = [text for _, text in check_document(card.text)]
    assert "Bias, risks and limitations" in headings
    assert card.text.count("GAP:") >= 4


def test_what_was_not_run_is_a_gap(audits: dict[str, Audit]) -> None:
    assert "GAP: not looked at: extraction" in write_model_card(audits["hostile"])

import pytest
import torch
from torch.nn import functional

from modeling_lvbert.modeling_heads import (
    binary_cross_entropy,
    cross_entropy,
    sequence_classification_loss,
    span_loss,
    squared_error,
)
from tests.families import FAMILIES, HEADS, build, head_inputs

LOSSES = {
    "cross_entropy": (cross_entropy, (6, 4), torch.tensor([0, 3, -100, 2, 1, -100])),
    "binary": (binary_cross_entropy, (6,), torch.tensor([0, 1, -100, 1, 0, -100])),
    "squared": (squared_error, (6,), torch.tensor([0.5, 3.0, -100.0, 2.0, 1.0, -100.0])),
}


@pytest.mark.parametrize("name", LOSSES)
def test_parts_of_a_step_add_up_to_the_whole(name):
    loss, shape, labels = LOSSES[name]
    logits = torch.randn(shape)
    whole = loss(logits, labels)
    items = labels.ne(-100).sum()
    parts = [
        loss(part, part_labels, items)
        for part, part_labels in zip(logits.split([1, 5]), labels.split([1, 5]), strict=True)
    ]
    torch.testing.assert_close(sum(parts), whole)
    torch.testing.assert_close(loss(logits, labels, int(items)), whole)


@pytest.mark.parametrize("name", LOSSES)
def test_without_labels_the_loss_is_zero_and_has_gradients(name):
    loss, shape, labels = LOSSES[name]
    logits = torch.randn(shape, requires_grad=True)
    value = loss(logits, torch.full_like(labels, -100))
    value.backward()
    assert value == 0
    assert (logits.grad == 0).all()


def test_losses_equal_pytorchs_means():
    logits, classes = torch.randn(5, 3), torch.tensor([0, 2, 1, 1, 0])
    torch.testing.assert_close(
        cross_entropy(logits, classes), functional.cross_entropy(logits, classes)
    )
    targets = torch.rand(5, 3).round()
    torch.testing.assert_close(
        binary_cross_entropy(logits, targets),
        functional.binary_cross_entropy_with_logits(logits, targets),
    )
    torch.testing.assert_close(squared_error(logits, targets), functional.mse_loss(logits, targets))


def test_problem_type_is_read_off_the_labels():
    integers, floats = torch.tensor([0, 1]), torch.tensor([[0.0, 1.0], [1.0, 1.0]])
    logits = torch.randn(2, 2)
    assert sequence_classification_loss(logits, integers, None) == cross_entropy(logits, integers)
    assert sequence_classification_loss(logits, floats, None) == binary_cross_entropy(
        logits, floats
    )
    single, targets = torch.randn(1, 1), torch.tensor([2.0])
    assert sequence_classification_loss(single, targets, None) == squared_error(single, targets)
    with pytest.raises(ValueError, match="unknown problem_type 'ranking'"):
        sequence_classification_loss(logits, integers, "ranking")


def test_answers_outside_of_the_sequence_are_left_out():
    start, end = torch.randn(2, 4), torch.randn(2, 4)
    inside = span_loss(start[:1], end[:1], torch.tensor([1]), torch.tensor([2]))
    outside = span_loss(start, end, torch.tensor([[1], [9]]), torch.tensor([[2], [-1]]))
    torch.testing.assert_close(outside, inside)


def test_half_precision_losses_are_computed_in_single():
    logits = torch.full((1, 3), 6e4, dtype=torch.float16)
    assert cross_entropy(logits, torch.tensor([1])).dtype == torch.float32
    assert squared_error(logits[0], torch.zeros(3)).isfinite()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("head", HEADS.values())
def test_a_configuration_may_ask_for_tuples(family, head):
    model = build(family, head)
    inputs = head_inputs(head)
    expected = model(**inputs).to_tuple()
    model.config.return_dict = False
    outputs = model(**inputs)
    assert isinstance(outputs, tuple)
    assert len(outputs) == len(expected)
    assert all(torch.equal(one, other) for one, other in zip(outputs, expected, strict=True))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("head", [head for head in HEADS.values() if head != "Model"])
def test_every_head_learns_in_one_step(family, head):
    model = build(family, head)
    inputs = head_inputs(head)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    before = model(**inputs).loss
    before.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    optimizer.step()
    assert model(**inputs).loss < before


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("head", [head for head in HEADS.values() if head != "Model"])
def test_items_of_the_step_scale_the_loss(family, head):
    model = build(family, head)
    inputs = head_inputs(head)
    plain = model(**inputs).loss
    if head in ("ForMaskedLM", "ForTokenClassification", "ForPreTraining"):
        items = inputs["labels"].ne(-100).sum()
    else:
        items = torch.tensor(3)
    torch.testing.assert_close(model(**inputs, num_items_in_batch=items * 4).loss, plain / 4)


@pytest.mark.parametrize("family", FAMILIES)
def test_shapes_of_the_heads(family):
    inputs = head_inputs("ForSequenceClassification")
    del inputs["labels"]
    assert build(family, "ForSequenceClassification", num_labels=5)(**inputs).logits.shape == (3, 5)
    assert build(family, "ForTokenClassification", num_labels=5)(**inputs).logits.shape == (3, 7, 5)
    answers = build(family, "ForQuestionAnswering", num_labels=3)(**inputs)
    assert answers.start_logits.shape == answers.end_logits.shape == (3, 7)
    choices = head_inputs("ForMultipleChoice")
    assert build(family, "ForMultipleChoice")(**choices).logits.shape == (3, 2)
    assert build(family, "ForMaskedLM")(**inputs).logits.shape == (3, 7, 99)


@pytest.mark.parametrize("family", FAMILIES)
def test_regression_takes_a_batch_of_one(family):
    model = build(family, "ForSequenceClassification", num_labels=1)
    inputs = head_inputs("ForSequenceClassification", batch=1)
    inputs["labels"] = torch.tensor([2.5])
    assert model(**inputs).loss.isfinite()


@pytest.mark.parametrize("family", FAMILIES)
def test_forward_leaves_the_configuration_as_it_was(family):
    model = build(family, "ForSequenceClassification")
    before = model.config.to_dict()
    model(**head_inputs("ForSequenceClassification")).loss.backward()
    assert model.config.to_dict() == before


def test_detection_loss_has_no_part_at_padding():
    model = build("LVBert", "ForPreTraining")
    inputs = head_inputs("ForPreTraining")
    inputs["labels"] = inputs["labels"].clamp(min=0)
    loss = model(**inputs).loss
    longer = {name: functional.pad(value, (0, 4)) for name, value in inputs.items()}
    torch.testing.assert_close(model(**longer).loss, loss)


@pytest.mark.parametrize("family", FAMILIES)
def test_multiple_choice_takes_embeddings_and_refuses_nothing(family):
    model = build(family, "ForMultipleChoice")
    inputs = head_inputs("ForMultipleChoice")
    expected = model(**inputs).logits
    embeds = model.get_input_embeddings()(inputs.pop("input_ids"))
    torch.testing.assert_close(model(inputs_embeds=embeds, **inputs).logits, expected)
    with pytest.raises(ValueError, match="got neither"):
        model(labels=inputs["labels"])

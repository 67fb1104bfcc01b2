"""The whole card of a published run, its metadata with the Hub client's own classes."""

import json
import re
from shutil import copytree

import pytest
from huggingface_hub import ModelCard

from conversion.model_card import PLACEHOLDER, conversion_card
from conversion.publishing_plan import make_plan
from conversion.saved_models import open_models, open_tokenizer
from conversion.searched_model_card import CardOptions, write_card
from tests.families import FAMILIES

from .published_runs import make_search, save_model, train, write_json

# Every section of the card of a searched model, in order.
WHOLE_CARD = r"""---
license: apache-2\.0
library_name: transformers
pipeline_tag: fill-mask
tags:
- (lvbert|elcbert)
- custom_code
- layer-order
model-index:
- name: best-order
  results:
  - task:
      type: fill-mask
    dataset:
      name: 4 rows of validation of corpus\.txt \(train_file\)
      type: local
      split: 4 rows of validation of corpus\.txt \(train_file\)
    metrics:
    - type: supernet_accuracy
      value: 0\.25
      name: supernet accuracy
    - type: supernet_loss
      value: 3\.5
      name: supernet loss
---

# best-order

(LV|ELC)-BERT, a masked language model\. Its layer order is the best of 18 .*

\| \| \|
\|---\|---\|
\| Family \| (LVBert|ELCBert) \|
\| Layer order, first letter nearest the input \| `[dsf ]+` \|
\| Layers \| 2 dynamic convolution, \d feed-forward, 2 self-attention \|
\| Hidden size · heads · feed-forward size \| 32 · 4 · 37 \|
\| Convolution kernel \(tokens\) \| 9 \|
\| Vocabulary · longest input \(tokens\) \| 99 · 64 \|
\| Parameters \| [\d,]+ \|
\| Operations of the encoder for a row of 24 tokens \(FLOPs\) \| [\d,]+ \|

`s` is self-attention.*

!\[Layers from the input up: .*\]\(figures/layer_order\.png\)

## How to use
.*pipeline\("fill-mask", model=model, revision="v1", trust_remote_code=True\)
print\(run\("The cat sat on the \[MASK\]\."\)\)
.*
## Training data

Data: `corpus\.txt` \(train_file\)\..*
\| train documents \| 28 \|
.*
## Recipe

These weights are cut out of a supernet.*
\| optimizer steps \| 6 \|
.*
\| `hidden_size` \| `32` \|
.*
## Search
.*
\| best \| `[dsf ]+` \| 0\.2500 ± 0\.0100 \| 3\.5000 ± 0\.0200 \|  \| 12,345 \| 67,890 \|
\| random 1 \| `[dsf ]+` \| .* \| \+0\.0625 ± 0\.0031 \| 12,345 \| 67,890 \|
.*
```bash
python examples/run_search\.py .*
```

\| Setting \| Value \|
\|---\|---\|
\| `num_layers` \| `5` \|
.*
\| `seed` \| `42` \|

!\[The best order and the baselines, layer by layer\]\(figures/layer_orders\.png\)

## Scores

\| Metric \| Value \| Measured on \|
\|---\|---\|---\|
\| supernet accuracy \| 0\.2500 \| 4 rows of validation of corpus\.txt \(train_file\) \|
.*
## Limits and bias

- The weights are a supernet's\..*
- The order is the best of those.*
- The training saw 4,360 tokens\.

The model fills gaps.*
## Padding and `conv_mask_padding`

`conv_mask_padding` is `True` in this checkpoint\..*
## Licence

The weights are published under `apache-2\.0`.*licences of the data.*
## Citation
.*2106\.11740.*2311\.02265.*```
"""
FIGURE = "figures/layer_order.png"


def card_of(folder, model_dir=None, figure=FIGURE, **options):
    plan = make_plan(folder, model_dir)
    models = open_models(plan.model_dir)
    tokenizer = open_tokenizer(plan.model_dir)
    return write_card(plan, models, tokenizer, CardOptions("ada/best-order", **options), figure)


@pytest.fixture(scope="module", params=FAMILIES)
def searched(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("card") / "search"
    make_search(folder, request.param)
    return folder


def test_every_section_is_filled_from_the_run(searched):
    card = card_of(searched, revision="v1")
    assert re.fullmatch(WHOLE_CARD, card, flags=re.DOTALL), card
    assert not PLACEHOLDER.search(card)
    assert "None" not in card.replace("(None", "")
    assert "/srv" not in card and str(searched) not in card


def test_the_metadata_are_read_back_by_the_hubs_client(searched):
    card = ModelCard(card_of(searched, language="en", license="cc-by-4.0"))
    assert card.data.language == "en"
    assert card.data.license == "cc-by-4.0"
    assert "published under `cc-by-4.0`" in card.text
    results = {result.metric_type: result for result in card.data.eval_results}
    assert results["supernet_accuracy"].metric_value == 0.25
    assert results["supernet_accuracy"].task_type == "fill-mask"


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (None, "of one supernet."),
        (1, "of one supernet."),
        (3, "of 3 supernets, the mean over them."),
    ],
)
def test_the_number_of_supernets_is_told(searched, tmp_path, number, told):
    copytree(searched, tmp_path / "search")
    path = tmp_path / "search" / "search_result.json"
    result = json.loads(path.read_text())
    result["settings"].pop("num_supernets", None)
    if number is not None:
        result["settings"]["num_supernets"] = number
    path.write_text(json.dumps(result))
    assert f"with the weights {told}" in card_of(tmp_path / "search").replace("\n", " ")


def test_weights_trained_later_have_their_own_scores(searched, tmp_path):
    trained = tmp_path / "trained"
    copytree(searched / "best", trained)
    train(trained)
    card = card_of(searched, trained)
    assert "| masked accuracy | 0.1250 |" in card
    assert "python examples/run_pretraining.py" in card
    assert "python examples/run_search.py" in card
    assert "cut out of a supernet" not in card
    assert "those of these weights" in card


def test_scores_on_different_data_stay_apart_in_the_metadata(searched, tmp_path):
    copytree(searched, tmp_path / "search")
    train(tmp_path / "search" / "supernet")
    results = ModelCard(card_of(tmp_path / "search")).data.eval_results
    assert {result.metric_type: result.dataset_name for result in results} == {
        "loss": "validation part of corpus.txt (train_file)",
        "masked_accuracy": "validation part of corpus.txt (train_file)",
        "supernet_accuracy": "4 rows of validation of corpus.txt (train_file)",
        "supernet_loss": "4 rows of validation of corpus.txt (train_file)",
    }


def test_masked_padding_that_is_off_is_a_limit(tmp_path):
    save_model(tmp_path, conv_mask_padding=False)
    card = card_of(tmp_path)
    assert "- `conv_mask_padding` is off:" in card
    assert "`conv_mask_padding` is `False` in this checkpoint" in card
    assert "How well it does anything was not measured" in card
    assert "model-index" not in card


@pytest.mark.parametrize(
    ("head", "call"),
    [
        (
            "ForQuestionAnswering",
            'print(run(question="Who sat?", context="The cat sat on the mat."))',
        ),
        ("ForSequenceClassification", 'print(run("The cat sat on the mat."))'),
        ("ForPreTraining", 'print(run("The cat sat on the mat."))'),
        ("Model", 'print(run("The cat sat on the mat."))'),
    ],
)
def test_the_example_fits_the_head(tmp_path, head, call):
    save_model(tmp_path, head=head)
    card = card_of(tmp_path, figure=None)
    assert call in card
    assert "Layers from the input up" in card


def test_a_fine_tuned_model_names_its_base_and_data_sets(tmp_path):
    save_model(tmp_path, head="ForSequenceClassification")
    settings = {"do_train": True, "model_name_or_path": "ada/base", "dataset_name": "a/b"}
    write_json(tmp_path / "fine_tuning.json", settings)
    write_json(tmp_path / "eval_results.json", {"eval_accuracy": 0.75})
    data = ModelCard(card_of(tmp_path)).data
    assert data.base_model == "ada/base"
    assert data.datasets == ["a/b"]
    assert data.eval_results[0].dataset_type == "a/b"


def test_what_a_converter_told_is_kept(tmp_path):
    model = save_model(tmp_path)
    text = conversion_card(
        model, "LV-BERT, converted", "An official checkpoint.", {"a = 1": "told."}, "A [MASK]."
    )
    (tmp_path / "README.md").write_text(text)
    card = card_of(tmp_path)
    assert "# LV-BERT, converted\n\nAn official checkpoint." in card
    assert "- `a = 1`: told." in card
    assert "license: other" in card
    assert "Converted without further training." in card
    assert 'model = "ada/best-order"' in card
    assert card.count("The model fills gaps") == 1
    assert "license: mit" in card_of(tmp_path, license="mit")


def test_extras_and_halves_are_told(tmp_path):
    save_model(tmp_path, head="ForPreTraining")
    save_model(tmp_path / "generator", hidden_size=16)
    card = card_of(tmp_path, extras=("onnx", "sentence_transformers"))
    assert '"ada/best-order", subfolder="generator", trust_remote_code=True' in card
    assert "SentenceTransformer(" in card
    assert "onnx/model.onnx" in card

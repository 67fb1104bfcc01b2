import pytest

from conversion import onnx_export
from tests.families import FAMILIES, build


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(onnx_export, "NEEDED", ("torch", "not_installed_here"))
    with pytest.raises(ImportError, match="pip install not_installed_here"):
        onnx_export.check_installed()


def test_multiple_choice_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_export, "NEEDED", ())
    with pytest.raises(ValueError, match="no inputs of"):
        onnx_export.export(build("LVBert", "ForMultipleChoice"), tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning"
)
@pytest.mark.parametrize("family", FAMILIES)
def test_an_export_has_free_axes_computes_the_same_and_tells_no_paths(family, tmp_path):
    for name in onnx_export.NEEDED:
        pytest.importorskip(name, reason="needs onnx, onnxruntime and onnxscript")
    import onnx

    head = {"LVBert": "ForMaskedLM", "ELCBert": "ForQuestionAnswering"}[family]
    model = build(family, head, attention="sdpa")
    assert onnx_export.export(model, tmp_path) < 1e-4
    assert [path.name for path in (tmp_path / "onnx").iterdir()] == ["model.onnx"]
    graph = onnx.load(str(tmp_path / onnx_export.FILE)).graph
    axes = {
        value.name: [axis.dim_param for axis in value.type.tensor_type.shape.dim]
        for value in (*graph.input, *graph.output)
    }
    assert axes["input_ids"] == axes["attention_mask"] == ["batch", "length"]
    names = ["logits"] if family == "LVBert" else ["start_logits", "end_logits"]
    assert [value.name for value in graph.output] == names
    content = (tmp_path / onnx_export.FILE).read_bytes()
    assert b"site-packages" not in content and b"modeling_" not in content

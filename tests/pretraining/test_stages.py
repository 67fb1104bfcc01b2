import pytest

from modeling_lvbert.pretraining.stages import (
    RunPlan,
    Stage,
    check_part,
    format_stages,
    parse_stages,
)

PUBLISHED = ["0.9:128:1", "0.1:512:0.25"]


def test_stages_are_read_and_written_alike():
    stages = parse_stages(PUBLISHED)
    assert stages == (Stage(0.9, 128, 1.0), Stage(0.1, 512, 0.25))
    assert format_stages(stages) == PUBLISHED


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["128"], "must be like"),
        (["1:128:1:1"], "must be like"),
        (["a:128:1"], "must be like"),
        (["1:12.5:1"], "must be like"),
        (["0:128:1", "1:128:1"], "above 0"),
        (["1:128:2"], "at most 1"),
        (["nan:128:1"], "above 0"),
        (["0.5:128:1", "0.4:512:1"], "add up to 0.9"),
        ([], "add up to 0"),
    ],
)
def test_bad_stages_are_refused(texts, message):
    with pytest.raises(ValueError, match=message):
        parse_stages(texts)


def test_the_published_run_changes_length_after_nine_tenths():
    plan = RunPlan(parse_stages(PUBLISHED), 31_250, 256)
    assert plan.first_steps() == [0, 28_125]
    assert plan.describe(28_124)[:3] == (0, 28_124, 256)
    assert plan.describe(28_125)[:3] == (1, 0, 64)
    assert plan.describe(40_000)[:2] == (1, 11_875)


def test_a_schedule_of_batch_sizes_is_a_list_of_stages():
    plan = RunPlan(parse_stages(["0.25:128:0.25", "0.25:128:0.5", "0.5:128:1"]), 8, 16)
    assert [plan.describe(step).num_rows for step in range(8)] == [4, 4, 8, 8, 16, 16, 16, 16]


def test_a_part_of_a_row_is_refused():
    with pytest.raises(ValueError, match="per_device_train_batch_size 6: .* 1.5 rows"):
        check_part(6, Stage(0.1, 512, 0.25))
    with pytest.raises(ValueError, match="0.5 rows"):
        RunPlan((Stage(1.0, 512, 0.25),), 10, 2)


@pytest.mark.parametrize("num_steps", [0, 1, 3])
def test_a_run_too_short_for_its_stages_is_refused(num_steps):
    with pytest.raises(ValueError, match="too short|at least 1"):
        RunPlan(parse_stages(PUBLISHED), num_steps, 256)

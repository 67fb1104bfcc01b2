import pytest
import torch
from torch.utils.data import DataLoader

from modeling_lvbert.pretraining.masking import MaskingCollator
from modeling_lvbert.pretraining.packing import bind_packing, pack_corpus
from modeling_lvbert.pretraining.rows import (
    PackedRows,
    RowIndex,
    StagedRows,
    StepSampler,
    StreamedBatches,
)
from modeling_lvbert.pretraining.stages import RunPlan, Stage
from modeling_lvbert.pretraining.streaming import StreamedRows

ONE_STAGE = (Stage(1.0, 24, 1.0),)
TWO_STAGES = (Stage(0.5, 16, 1.0), Stage(0.5, 24, 0.5))


def numbers(sampler):
    return [index.number for part in sampler for index in part]


@pytest.mark.parametrize("batch", [4, 6, 10, 64])
def test_every_row_comes_equally_often(batch):
    sampler = StepSampler(RunPlan(ONE_STAGE, 1000, batch), [10], seed=3)
    seen = []
    for epoch in range(30):
        sampler.set_epoch(epoch)
        parts = list(sampler)
        assert len(parts) == len(sampler)
        assert all(len(part) == batch for part in parts)
        seen += [index.number for part in parts for index in part]
    # One pass after the other, each a permutation of its own.
    passes = [seen[start : start + 10] for start in range(0, len(seen) - 9, 10)]
    for number, indices in enumerate(passes):
        assert sorted(indices) == list(range(number * 10, number * 10 + 10))
    assert len({tuple(index % 10 for index in indices) for indices in passes[:5]}) == 5


@pytest.mark.parametrize(
    ("size", "accumulated", "ranks"), [(16, 1, 1), (4, 4, 1), (4, 2, 2), (8, 1, 2), (2, 2, 4)]
)
def test_a_step_has_the_same_rows_however_it_is_split(size, accumulated, ranks):
    whole = StepSampler(RunPlan(TWO_STAGES, 6, 16), [37, 23], seed=1)
    split = [
        list(StepSampler(RunPlan(TWO_STAGES, 6, size), [37, 23], 1, accumulated, rank, ranks))
        for rank in range(ranks)
    ]
    assert len({len(parts) for parts in split}) == 1
    # A step's parts: those of all ranks, then the next accumulation step's.
    joined = [index for parts in zip(*split, strict=True) for part in parts for index in part]
    assert joined == [index for part in whole for index in part]


def test_stages_change_rows_and_batch_at_their_step():
    sampler = StepSampler(RunPlan(TWO_STAGES, 4, 8), [32, 12], seed=0)
    parts = list(sampler)
    assert [(part[0].stage, len(part)) for part in parts] == [(0, 8), (0, 8), (1, 4), (1, 4)]
    second = [index.number for part in parts[2:] for index in part]
    assert len(set(second)) == 8
    assert max(second) < 12


def test_the_share_of_masks_moves_evenly():
    sampler = StepSampler(RunPlan(ONE_STAGE, 4, 8, (0.4, 0.2)), [32], seed=0)
    shares = [part[0].mask_fraction for part in sampler]
    assert shares == pytest.approx([0.4, 0.35, 0.3, 0.25])


def test_the_index_carries_row_epoch_and_seed(documents, tokenizer):
    rows = PackedRows(pack_corpus(documents, tokenizer, 24), seed=5)
    item = rows[2 * len(rows) + 3]
    assert item["mask_key"] == (5, 2, 3)
    assert item["input_ids"] == rows.rows[3]["input_ids"]


def test_each_stage_reads_its_own_rows(documents, tokenizer):
    packed = [pack_corpus(documents, tokenizer, length) for length in (16, 24)]
    staged = StagedRows([PackedRows(rows, seed=5) for rows in packed])
    for stage in (0, 1):
        row = staged[RowIndex(stage, 2, 0.3)]
        assert row["input_ids"] == packed[stage][2]["input_ids"]
        assert row["mask_fraction"] == 0.3
    assert "mask_fraction" not in staged[RowIndex(0, 2, None)]


@pytest.mark.parametrize("workers", [0, 2])
def test_workers_change_no_batch(documents, tokenizer, workers):
    packed = pack_corpus(documents, tokenizer, 24)
    rows = StagedRows([PackedRows(packed, seed=5)])

    def load(workers):
        sampler = StepSampler(RunPlan(ONE_STAGE, 100, 8), [len(packed)], seed=1)
        sampler.set_epoch(1)
        context = "fork" if workers else None
        return list(
            DataLoader(
                rows,
                batch_sampler=sampler,
                collate_fn=MaskingCollator(tokenizer),
                num_workers=workers,
                multiprocessing_context=context,
            )
        )

    for one, other in zip(load(0), load(workers), strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)


def test_some_rows_are_shortened_anew_each_epoch(documents, tokenizer):
    packed = pack_corpus(documents, tokenizer, 24)
    rows = PackedRows(packed, seed=5, short_sequence_probability=0.5, max_seq_length=24)
    passes = [rows.__getitems__(range(start, start + len(rows))) for start in (0, len(rows))]
    assert [len(row["input_ids"]) for row in passes[0]] != [
        len(row["input_ids"]) for row in passes[1]
    ]
    for row, whole in zip(passes[0], packed["input_ids"], strict=True):
        assert row["input_ids"] == [*whole[: len(row["input_ids"]) - 1], whole[-1]]
    assert rows[7] == passes[0][7]


def test_rows_that_cannot_be_shortened_are_refused(documents, tokenizer):
    pairs = pack_corpus(documents, tokenizer, 24, packing="segment_pairs")
    with pytest.raises(ValueError, match="two segments"):
        PackedRows(pairs, 0, 0.1, 24)
    with pytest.raises(ValueError, match="short_sequence_probability 2"):
        PackedRows(pack_corpus(documents, tokenizer, 24), 0, 2.0, 24)


@pytest.fixture
def streams(documents, tokenizer):
    """A stream for each of two stages, of which the first needs several passes."""

    def read():
        return iter({"text": text} for text in documents["text"][:12])

    return [
        StreamedRows(read, bind_packing(tokenizer, length), seed=7, block_size=5)
        for length in (16, 24)
    ]


def stream_batches(streams, size=8, accumulated=1, rank=0, ranks=1):
    return StreamedBatches(RunPlan(TWO_STAGES, 10, size), streams, 0.2, accumulated, rank, ranks)


def keys(batches):
    return [row["mask_key"] for batch in batches for row in batch]


@pytest.mark.parametrize(("size", "accumulated", "ranks"), [(2, 4, 1), (2, 2, 2), (4, 1, 2)])
def test_a_streamed_step_has_the_same_rows_however_it_is_split(streams, size, accumulated, ranks):
    split = [list(stream_batches(streams, size, accumulated, rank, ranks)) for rank in range(ranks)]
    joined = [part for parts in zip(*split, strict=True) for part in parts]
    assert keys(joined) == keys(stream_batches(streams))


def test_a_stream_goes_on_from_every_step(streams):
    whole = list(stream_batches(streams))
    assert [len(batch) for batch in whole] == [8] * 5 + [4] * 5
    for step in range(1, 10):
        rest = stream_batches(streams)
        rest.start_at(step, whole[step - 1][-1]["stream_position"])
        assert list(rest) == whole[step:]


def test_a_stage_reads_the_corpus_from_its_beginning(streams):
    seen = list(stream_batches(streams))
    fresh = [row["mask_key"] for _, row in zip(range(20), _rows(streams[1]), strict=False)]
    assert keys(seen[5:]) == fresh


def _rows(stream):
    return (row for _, row in stream.iterate_from((0, 0, 0)))

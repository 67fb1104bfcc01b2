import json
import logging

import pytest

from modeling_lvbert.evaluation.question_answering.data import (
    locate_answer,
    parse_questions,
    read_questions,
)

CONTEXT = "The harbour was built in 1842.\r\nIn 1901 a storm 🌊 took the harbour away."


def flat(name="q1", text="What was built?", context=CONTEXT, answers=("harbour",), **fields):
    starts = [context.find(answer) for answer in answers]
    gold = {"text": list(answers), "answer_start": starts}
    return {"id": name, "question": text, "context": context, "answers": gold, **fields}


def nested(records):
    paragraphs = [
        {
            "context": record["context"],
            "qas": [
                {
                    "id": record["id"],
                    "question": record["question"],
                    "is_impossible": not record["answers"]["text"],
                    "answers": [
                        {"text": text, "answer_start": start}
                        for text, start in zip(*record["answers"].values(), strict=True)
                    ],
                }
            ],
        }
        for record in records
    ]
    return {"version": "v2.0", "data": [{"title": "Harbour", "paragraphs": paragraphs}]}


def test_all_forms_of_files_give_the_same_questions(tmp_path):
    records = [flat(), flat("q2", "  When? ", answers=("1842", "1901")), flat("q3", answers=())]
    texts = {
        "nested.json": json.dumps(nested(records), indent=1),
        "list.json": json.dumps(records),
        "data.json": json.dumps({"data": records}),
        "lines.jsonl": "\n".join(json.dumps(record) for record in records) + "\n\n",
        "lines.json": "\r\n".join(json.dumps(record, ensure_ascii=False) for record in records),
        "marked.json": "\ufeff" + json.dumps(records),
        "separators.jsonl": "\n".join(
            json.dumps({**record, "note": "\u2028\x85"}, ensure_ascii=False) for record in records
        ),
    }
    read = {}
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8", newline="")
        read[name] = read_questions("train_file", str(tmp_path / name))
    assert all(questions == read["nested.json"] for questions in read.values())
    first, second, third = read["nested.json"]
    assert (first.name, first.text, first.golds) == ("q1", "What was built?", ("harbour",))
    assert first.context == CONTEXT
    assert (second.text, second.golds) == ("When?", ("1842", "1901"))
    assert CONTEXT[slice(*second.span)] == "1842"
    assert (third.golds, third.span) == ((), None)


@pytest.mark.parametrize(
    ("text", "start", "place"),
    [
        ("harbour", 4, 4),
        ("harbour", 5, 4),
        ("harbour", 20, 4),
        ("harbour", 50, 59),
        ("harbour", 60, 59),
        ("harbour", None, 4),
        ("harbour", -1, 4),
        ("harbour", 10**6, 59),
        (" harbour ", 3, 4),
        ("storm 🌊 took", 42, 42),
        ("1842.\r\nIn", 0, 25),
        ("Harbour", 4, None),
        ("  ", 3, None),
        ("", 0, None),
    ],
)
def test_answers_are_found_at_the_nearest_place(text, start, place):
    found = locate_answer(CONTEXT, text, start)
    assert found == (None if place is None else (place, place + len(text.strip())))


def test_mislocated_and_missing_answers_are_told(caplog):
    moved, lost, several = flat("moved"), flat("lost"), flat("several")
    moved["answers"]["answer_start"] = [0]
    lost["answers"]["text"] = ["lighthouse"]
    several["answers"] = {"text": ["lighthouse", "", "storm"], "answer_start": [4, 4, 42]}
    with caplog.at_level(logging.WARNING):
        questions = parse_questions("file", [moved, lost, several, flat("right")])
    assert [question.span and CONTEXT[slice(*question.span)] for question in questions] == [
        "harbour",
        None,
        "storm",
        "harbour",
    ]
    # What they are scored by stays as it is.
    assert questions[2].golds == ("lighthouse", "", "storm")
    assert "of 4 questions, 1 have their answer at another place" in caplog.text
    assert "1 have none that the context has" in caplog.text


def test_answers_may_be_absent():
    record = flat()
    del record["answers"]
    assert parse_questions("file", [record])[0].golds is None
    record["answers"] = {"text": ["harbour"]}
    assert parse_questions("file", [record])[0].span == (4, 11)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": None}, "question 1: an id is needed, got None; fields: .'answers'"),
        ({"context": None}, "question 1: context must be a text, got None"),
        ({"question": 3}, "question 1: question must be a text, got 3"),
        ({"context": " \n"}, "question 1: the context is empty"),
        ({"context": "half \ud83d"}, "question 1: context has half a character"),
        ({"answers": ["harbour"]}, "answers must be a list of .* got ..harbour"),
        ({"answers": {"text": ["a", "b"], "answer_start": [1]}}, "answers must be a list"),
        ({"answers": [{"text": "harbour", "answer_start": "4"}]}, "answers must be a list"),
    ],
)
def test_wrong_records_are_refused(change, message):
    with pytest.raises(ValueError, match=f"^file: (question 1: )?{message}"):
        parse_questions("file", [{**flat(), **change}])


def test_an_id_is_there_once():
    with pytest.raises(ValueError, match="question 2: id 'q1' is there twice"):
        parse_questions("file", [flat(), flat()])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("gone.json", None, "no such file"),
        ("data.csv", "id,question", "must end in .json or .jsonl"),
        ("broken.json", '{"data": [', "cannot be read"),
        ("lines.jsonl", '{"id": 1}\nhello\n', "cannot be read"),
        ("empty.json", '{"data": []}', "no questions"),
        ("number.json", "3", "cannot be read .a list of records is needed"),
        ("text.json", '["hello"]', "record 1 must be an object"),
        ("nested.json", '[{"paragraphs": [{"text": "x"}]}]', "record 1 is not in SQuAD's form"),
        ("bytes.json", b"\xff\xfe", "cannot be read"),
    ],
)
def test_damaged_files_are_refused(tmp_path, name, text, message):
    path = tmp_path / name
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=f"validation_file .*{name}'.*{message}"):
        read_questions("validation_file", str(path))

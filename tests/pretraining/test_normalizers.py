import lzma
import re

import pytest

from modeling_lvbert.pretraining.normalizers import NORMALIZERS, normalize_lines

# Written for these tests, in the form of the files.
CHILDES = """\
it rained all day.
*MOT:\tshall we go outside?

= = = childes/Eng-NA/Nobody/001.cha = = =
[Anna and her mother are in the kitchen]
*MOT:\tlook , a boat [points at the window].
*CHI:\txxx boat. [laughs]
*CHI:\txxx.
*CHI:\tboat.
*CHI:\tboat.
*PAR1:\tthat's “right”. %add: CHI

= = = childes/Eng-NA/Nobody/002.cha = = =
*FAT:\tgood night [whispers] , Anna!
"""
CHILDES_LINES = [
    '"It rained all day."',
    '"Shall we go outside?"',
    "",
    '"Look, a boat."',
    '"Boat."',
    '"That\'s "right"."',
    "",
    '"Good night, Anna!"',
]
EXAMPLES = {
    "childes": (CHILDES, CHILDES_LINES),
    "aochildes": (
        "do n't touch that , it 's hot !\nyes .\nyes .\n.\nwhat 's ( in ) there ?\nadd .5 .\n",
        ["\"Don't touch that, it's hot!\"", '"Yes."', '"What\'s (in) there?"', '"Add .5."'],
    ),
    "bnc_spoken": (
        "we paid five pounds .\n.\n\n\nwell , did you ?\n",
        ['"We paid five pounds."', "", '"Well, did you?"'],
    ),
    "switchboard": (
        "A:\tI have a cat,\nB:\tUh-huh.\nB:\tUh-huh.\nA:\twho is *transcript error--should be\n"
        "- So do I.\nB: A: B: letters\nA:\t\n",
        ['"I have a cat,"', '"Uh-huh."', '"who is"', '"So do I."', '"A: B: letters"'],
    ),
    "open_subtitles": (
        "- Where is he?\n-I don't know.\n♪ ♪\n<i>Far away.</i>\n[door slams]\n\nANNA:\n"
        'Far away.\nFar away.\n"Quoted already"\n',
        [
            '"Where is he?"',
            '"I don\'t know."',
            '"Far away."',
            "[door slams]",
            "",
            "ANNA:",
            '"Far away."',
            '"Quoted already"',
        ],
    ),
    "qed": (
        "Let us add &amp;amp; divide.\n&lt;font&gt;x&lt;/font&gt;\n00:12 --> 00:14\n12:30:\n"
        "- Is 3 &gt; 2?\n\nYes.\n",
        ['"Let us add & divide."', '"Is 3 > 2?"', "", '"Yes."'],
    ),
    "cbt": (
        "`` Come in , '' said the fox -LRB- a red one -RRB- .\n\nIt did n't .\n",
        ['"Come in," said the fox (a red one).', "", "It didn't."],
    ),
    "children_stories": (
        "THE FOX\n\nOnce there was a fox.\nIt was red.\n    Oh fox, oh fox,\n\nTHE HEN\n",
        ["THE FOX", "Once there was a fox.", "It was red.", "[TAB] Oh fox, oh fox,", "", "THE HEN"],
    ),
    "simple_wiki": (
        "= = = Boat = = =\nA boat floats.[1] It is &quot;small&quot;.\nPeople row boats.\n\n"
        "= = = Nowhere = = =\nNowhere is a commune found in the north.\n\n"
        "Ship\nA ship is large.\n\n\n= = = Sea = = =\n\nThe sea is salty.\n",
        [
            "Boat",
            'A boat floats. It is "small".',
            "People row boats.",
            "",
            "Ship",
            "A ship is large.",
            "",
            "Sea",
            "The sea is salty.",
        ],
    ),
    "wikipedia": (
        "= = = Boat = = =\nA [[ship|boat]] [[float]]s.[12]\n\n[[Category:Boats]]\nIt is old.\n"
        "= = = Empty = = =\n= = = Sea = = =\nThe sea’s water is salty.\n",
        ["Boat", "A boat floats.", "It is old.", "", "Sea", "The sea's water is salty."],
    ),
    "gutenberg": (
        "= = = PG1 = = =\nHe met Mr.\nA.\nSmith on a _fine_ day.\n[Illustration: a fox] * * * *\n"
        "It rained.[3]\nEnd of the Project Gutenberg EBook of Rain\n\n"
        "= = = PG2 = = =\nAnother book.\n",
        ["He met Mr. A. Smith on a fine day.", "It rained.", "", "Another book."],
    ),
    "gutenberg_wrapped": (
        "CHAPTER I\n\nTHE FOX\n\n\nOnce there was a fox that had no\nhole to live in, a half-\n"
        "grown fox--\nwith a _red_ tail.\n\n    *       *       *\n\n[Illustration: fox]\n\n"
        "It looked for\none.\n\n\n\nCHAPTER II\n\n\nIt found none\nat all.\n",
        [
            "CHAPTER I",
            "THE FOX",
            "Once there was a fox that had no hole to live in, a half-grown fox--with a red tail.",
            "It looked for one.",
            "",
            "CHAPTER II",
            "It found none at all.",
        ],
    ),
}


def normalize(source, text):
    return list(normalize_lines(source, text.splitlines()))


@pytest.mark.parametrize("source", sorted(NORMALIZERS))
def test_each_source_gives_plain_documents(source):
    text, expected = EXAMPLES[source]
    assert normalize(source, text) == expected


@pytest.mark.parametrize("source", sorted(NORMALIZERS))
def test_nothing_comes_of_nothing(source):
    assert normalize(source, "") == []
    assert normalize(source, "\n \n\n") == []


@pytest.mark.parametrize("source", sorted(NORMALIZERS))
def test_lines_may_be_a_stream_with_line_ends(source):
    text, expected = EXAMPLES[source]
    assert list(normalize_lines(source, iter(text.splitlines(keepends=True)))) == expected


@pytest.mark.parametrize("source", ["childes", "gutenberg"])
def test_lines_that_were_joined_come_apart(source):
    text, expected = EXAMPLES[source]
    joined = normalize(source, " ".join(text.split()))
    assert joined.count("") == expected.count("")
    if source == "childes":
        assert joined == expected


@pytest.mark.parametrize(
    ("broken", "whole"),
    [
        ("He said itâ€™s a cafÃ© .", "He said it's a café ."),
        ("„Yes“ â€” ﬁve Ａ &amp;amp; B", '"Yes" — five A & B'),
        ("<i>Tom &amp; Jerry</i>", "<i>Tom & Jerry</i>"),
        ("\ufeffco\u00adoperate\u2028now", "cooperate now"),
        # What is in order stays: dashes, ellipses, accents, other scripts.
        ("“Ünïcode” – 北京 … — naïve Â", '"Ünïcode" – 北京 … — naïve Â'),
    ],
)
def test_encoding_is_repaired(broken, whole):
    assert list(normalize_lines("wikipedia", [broken])) == [whole]


def test_an_unknown_source_is_refused():
    with pytest.raises(ValueError, match="source 'reddit': must be one of aochildes, .*wikipedia"):
        normalize_lines("reddit", [])


REAL = {
    "aochildes": "babylm_raw/aochildes_2023style.train.xz",
    "childes": "babylm_raw/childes.train.xz",
    "gutenberg": "babylm_raw/gutenberg.train.xz",
    "gutenberg_wrapped": "babylm_raw/gutenberg_hardwrapped_sample.txt.xz",
    "simple_wiki": "babylm_raw/simple_wiki.train.xz",
    "switchboard": "babylm_raw/switchboard.train.xz",
    "wikipedia": "wikipedia_sample/wikipedia.valid.txt.xz",
}
LEFT_OVER = re.compile(
    r"= = =|\*[A-Z]{2,3}\d?:|^[AB]:\s|%[a-z]+:|\bxxx\b|[“”‘’]|&(?:amp|lt|gt|quot);"
    r"|^\W+$|^\s|\s$|\s\s"
)


@pytest.fixture(scope="module", params=sorted(REAL))
def real(request, shared_data):
    """A source's name, the real sample's lines, and what the normalizer makes of them."""
    with lzma.open(shared_data / REAL[request.param], "rt", encoding="utf-8") as file:
        raw = file.read().splitlines()
    return request.param, raw, list(normalize_lines(request.param, raw))


def test_no_mark_of_a_real_sample_is_left(real):
    _, _, lines = real
    left = [line for line in lines if line and LEFT_OVER.search(line)]
    # The sample of Simple Wikipedia has four headings that were cut in two.
    assert len(left) <= 5, left[:20]


def test_a_real_sample_keeps_its_words(real):
    source, raw, lines = real
    words = re.compile(r"[^\W\d_]+")
    text = "\n".join(raw)
    if source == "childes":
        # Notes, codes and speakers are no text.
        text = re.sub(r"\[[^\]]*\]|%\w+:.*|\*[A-Z0-9]+:|\bxxx\b|= = =.*", "", text)
    text = re.sub(r"^[AB]:\t", "", text, flags=re.MULTILINE)
    before, after = len(words.findall(text)), len(words.findall("\n".join(lines)))
    # Immediate repetitions ("yeah.") and the robot's sentences go.
    assert (0.93 if source in ("childes", "switchboard", "aochildes") else 0.96) < after / before
    assert after <= before


def test_a_real_sample_has_its_documents(real):
    source, raw, lines = real
    headings = sum(line.startswith("= = = ") for line in raw)
    documents = lines.count("") + 1
    assert "" not in (lines[0], lines[-1])
    assert all(one or other for one, other in zip(lines, lines[1:], strict=False))
    if source == "gutenberg_wrapped":
        # Chapters, not paragraphs.
        assert 15 < documents < 100
        assert max(map(len, lines)) > 400
    elif source in ("switchboard", "aochildes"):
        assert documents == 1
    else:
        assert 0.9 * headings < documents <= headings + 1

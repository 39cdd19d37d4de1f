#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/golden/data/metrics.{bin,tsv}: texts and the scores that LongBench's metrics give them.

    python3 -m venv /tmp/metrics
    /tmp/metrics/bin/pip install rouge==1.0.1 fuzzywuzzy==0.18.0
    /tmp/metrics/bin/python tests/golden/make_metrics.py

python-Levenshtein may not be installed: fuzzywuzzy would compute another ratio with it. Python 3.11 or
later, whose Unicode is 14 or later. The other metrics are those of the published program, written
down anew from what it computes. data/README.md describes the format.
"""
import os
import random
import re
import string
import struct
import warnings
from collections import Counter

warnings.filterwarnings("ignore")
from fuzzywuzzy import fuzz  # noqa: E402
from rouge import Rouge  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
SEED = 42
rng = random.Random(SEED)

# ---- metrics ----


def token_f1(prediction, reference):
    def tokens(text):
        text = "".join(c for c in text.lower() if c not in string.punctuation)
        return re.sub(r"\b(a|an|the)\b", " ", text).split()

    ours, theirs = tokens(prediction), tokens(reference)
    n_common = sum((Counter(ours) & Counter(theirs)).values())
    if n_common == 0:
        return 0.0
    precision, recall = n_common / len(ours), n_common / len(theirs)
    return 2 * precision * recall / (precision + recall)


def rouge_l(prediction, reference):
    try:
        return Rouge().get_scores([prediction], [reference], avg=True)["rouge-l"]["f"]
    except ValueError:  # one of them is empty
        return 0.0


def classification(prediction, reference, classes):
    found = [name for name in classes if name in prediction]
    for name in found:  # the list is changed while it is walked, as published
        if name in reference and name != reference:
            found.remove(name)
    return 1.0 / len(found) if reference in found else 0.0


def share_of_numbers(prediction, wanted):
    numbers = re.findall(r"\d+", prediction)
    return sum(number == wanted for number in numbers) / len(numbers) if numbers else 0.0


def retrieval(prediction, reference):
    return share_of_numbers(prediction, re.findall(r"Paragraph (\d+)", reference)[0])


def code_similarity(prediction, reference):
    code = ""
    for line in prediction.lstrip("\n").split("\n"):
        if "`" not in line and "#" not in line and "//" not in line:
            code = line
            break
    return fuzz.ratio(code, reference) / 100


# ---- texts ----

WORDS = """the a an The A AN river lamp door winter stone of in and is was 1894 12 twelve Ines Tully harbour
lighthouse Wend O'Hara co-op ice-cream U.S. e.g. naïve café Zürich Straße ΟΔΥΣΣΕΥΣ ΣΟΦΟΣ Σ ΑΣ. İstanbul ıspanak ǅ
Ⅳ ½ x² ٣٤ 東京 京都市 привет МОСКВА ﬁre ａｂｃ _under_score_ "quoted" (bracket) it's the’ “the” —a— an' ʼn é ñandú ẞ
a\u0301 the\u0301 \u0903a Ⅷ ⓐ 🙂 🙂a zero\u200bwidth the\u00ad""".split()
SPACES = [" ", " ", " ", " ", " ", " ", "  ", "\n", "\t", "\u00a0", "\u2003", "\u3000", "\u2028", "\x1c", "\x85",
          "\u200b", ", ", "; ", ". ", ".", "\r\n"]


def text(n_words, words=None, spaces=None):
    return "".join(rng.choice(words or WORDS) + rng.choice(spaces or SPACES) for _ in range(n_words))


def changed(original, words=None):
    """The text with words dropped, doubled, replaced and moved."""
    parts = re.split(r"(\s+)", original)
    out = []
    for part in parts:
        chance = rng.random()
        if chance < 0.1:
            continue
        out.append(part)
        if chance > 0.92:
            out.append(rng.choice(words or WORDS) + " ")
        elif chance > 0.88:
            out.append(part)
    if rng.random() < 0.3:
        at = rng.randrange(len(out) + 1)
        out = out[at:] + [" "] + out[:at]
    return "".join(out)


EDGES = ["", " ", "a", "the", "The.", ".", "...", "!?", "\n", "\n\n", "\u3000", "a an the", "A", "Σ", "ΑΣ", "\u0301",
         "x", "x.", " .", "x . y", "İ", "12", "🙂", "the the the", "a\u00a0b", "0"]


def prose_pairs(n, lengths):
    for i in range(n):
        prediction = text(rng.choice(lengths))
        kind = i % 5
        if kind == 0:
            yield prediction, changed(prediction)
        elif kind == 1:
            yield changed(prediction), prediction.upper() if i % 2 else prediction.lower()
        elif kind == 2:
            yield prediction, text(rng.choice(lengths))
        elif kind == 3:  # few words, many times
            few = rng.sample(WORDS, 3)
            yield text(rng.choice(lengths), few), text(rng.choice(lengths), few)
        else:
            unit = text(3)
            yield unit * rng.randint(1, 40), prediction + unit


def edge_pairs():
    for prediction in EDGES:
        for reference in rng.sample(EDGES, 3) + [prediction]:
            yield prediction, reference


CODE = ["x", "y1", "self.value", "return", "(", ")", " ", "    ", "\t", "=", "==", "+= 1", "for i in range(n):", "0x1F",
        '"text"', "é", "λ", "# note", "// note", "`", "{", "}", ";", "[i]", "->", "*p", "int ", "if ", "东"]


def code_line(n):
    return "".join(rng.choice(CODE) for _ in range(n))


def code_pairs(n):
    for i in range(n):
        length = rng.choice([1, 3, 8, 15, 30]) if i % 6 else rng.choice([60, 90, 150])
        reference = re.sub(r"[`#]|//", "", code_line(length))
        prediction = list(reference)
        for _ in range(rng.randint(0, 1 + len(prediction) // 3)):
            at = rng.randrange(len(prediction) + 1)
            if rng.random() < 0.5:
                prediction[at:at + rng.randint(1, 4)] = []
            else:
                prediction.insert(at, rng.choice(CODE))
        prediction = "".join(prediction)
        kind = i % 4
        if kind == 0:
            prediction = "\n" * rng.randint(0, 2) + "# first\n// second\n" + prediction + "\nlast"
        elif kind == 1:
            prediction = "\n" * rng.randint(0, 3) + prediction + "\n" + code_line(3)
        elif kind == 2 and i % 3 == 0:
            prediction, reference = "ab" * rng.randint(1, 150), "ba" * rng.randint(1, 150) + reference
        yield prediction, reference


CLASSES = ["Food", "Foot", "Animal", "Color", "City", "Other city", "Country", "Other country", "Other", "State", "Date",
           "Number", "Other number", "Vitamin", "Person", "Individual person", "A", "AB", "ABC", "é", "éa", "number"]


def classification_cases(n):
    for _ in range(n):
        classes = rng.sample(CLASSES, rng.randint(1, 8))
        if rng.random() < 0.1:
            classes.append(classes[0])
        reference = rng.choice(classes) if rng.random() < 0.9 else rng.choice(CLASSES)
        prediction = rng.choice(["", " ", "Type: "]) + " ".join(
            [reference] * rng.randint(0, 1) + rng.sample(classes, rng.randint(0, len(classes)))
            + rng.sample(CLASSES, rng.randint(0, 2)))
        yield prediction, reference, classes


def nested_cases(n):
    """Names that are parts of one another: several in a row are to be dropped, and some are skipped."""
    for _ in range(n):
        letters = "".join(rng.choice("xyzé ") for _ in range(6)) + "!"
        classes = [letters[rng.randrange(3):rng.randint(4, 7)] for _ in range(rng.randint(2, 6))]
        classes.insert(rng.randrange(len(classes) + 1), letters)
        yield "It is %s?" % rng.choice(classes), letters, classes
        yield letters + " " + rng.choice(CLASSES), letters, classes


NUMBERS = ["1", "2", "12", "3", "30", "03", "٣", "１２", "²", "twelve", "1.5", "Paragraph 12", "paragraph 3", "12th", "x12y", "-12",
           "Paragraph", "1,234", "\n"]


def number_cases(n, form):
    for _ in range(n):
        reference = form % rng.choice(["1", "2", "12", "3", "30", "03", "٣", "7"])
        yield " ".join(rng.choice(NUMBERS) for _ in range(rng.randint(0, 6))), reference


# ---- output ----

blob, lines = bytearray(), []


def add(name, dtype, values):
    blob.extend(b"\0" * (-len(blob) % 16))
    data = values if dtype == "u8" else struct.pack("<%d%s" % (len(values), {"i64": "q", "f64": "d"}[dtype]), *values)
    lines.append("%s\t%s\t%d\t%d\t%d" % (name, dtype, len(blob), len(values), len(values)))
    blob.extend(data)


def add_cases(name, cases):
    """Each case: a score and texts. Text t of all is at [offset[t], offset[t + 1]); first: the number of a case's
    first text."""
    texts, offsets, firsts, scores = bytearray(), [0], [], []
    for score, *strings in cases:
        firsts.append(len(offsets) - 1)
        scores.append(score)
        for one in strings:
            texts.extend(one.encode())
            offsets.append(len(texts))
    firsts.append(len(offsets) - 1)
    add(name + ".text", "u8", bytes(texts))
    add(name + ".offset", "i64", offsets)
    add(name + ".first", "i64", firsts)
    add(name + ".score", "f64", scores)
    print("%-16s %4d cases, %4d of them neither 0 nor 1" % (name, len(scores), sum(0 < s < 1 for s in scores)))


def main():
    prose = list(prose_pairs(260, [1, 2, 4, 9, 20])) + list(edge_pairs())
    add_cases("token_f1", [(token_f1(p, r), p, r) for p, r in prose])
    summaries = list(prose_pairs(220, [5, 20, 60, 100])) + list(edge_pairs())
    add_cases("rouge_l", [(rouge_l(p, r), p, r) for p, r in summaries])
    named = list(classification_cases(250)) + list(nested_cases(50))
    add_cases("classification", [(classification(p, r, c), p, r, *c) for p, r, c in named])
    add_cases("retrieval", [(retrieval(p, r), p, r) for p, r in number_cases(250, "See Paragraph x, Paragraph %s.")])
    add_cases("count", [(share_of_numbers(p, r), p, r) for p, r in number_cases(250, "%s")])
    code = list(code_pairs(300)) + list(edge_pairs())
    add_cases("code_similarity", [(code_similarity(p, r), p, r) for p, r in code])
    base = os.path.join(HERE, "data", "metrics")
    with open(base + ".bin", "wb") as out:
        out.write(blob)
    with open(base + ".tsv", "w", encoding="utf-8") as out:
        out.write("#meta\tseed\t%d\n" % SEED)
        out.write("".join(line + "\n" for line in lines))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the questions and examples under benchmarks/qa and benchmarks/longbench: our own small stand-ins, in
the formats of SQuAD, HotpotQA and LongBench, for data sets that are not ours to ship. Everything in them is
invented. Same output at each run; figures depend on it, so a change of this script changes them.

    python3 tools/make_benchmark_data.py
"""
import json
import os
import random

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "benchmarks")
rng = random.Random(42)

TOWNS = """Aldermouth Brackwell Corvendale Dunhollow Eskerby Farrowgate Glimmerford Hathersedge Inverloch Jarrowby
Kestrelham Larkspire Marrowick Netherpool Oakenshaw Pellwater Quillstead Ravensmoor Saltmarsh Thornbury Ulverdale
Wexholm Yarrowfield Zennorby""".split()
RIVERS = """Ashwater Bramble Calder Dovey Elder Fennel Garrow Hollin Isker Kennet Linnet Mallow Nettle Osprey Plover
Quern Rushwater Sedge Tansy Umber Vetch Willet Yewwater Zell""".split()
FIRST = "Ada Bruno Clara Dario Edith Felix Greta Hugo Ines Jonas Karla Leo Mira Nils Olga Pablo Rosa Stefan Tilda Urban".split()
LAST = """Abbott Barrow Carver Dunmore Ellery Fielding Grantham Hartwell Ingram Jessop Kendrick Lowell Marsden Norwood
Orchard Penrose Quennell Rowland Sutcliffe Tarrant""".split()
CRAFTS = """clockmaker bridge-builder botanist bell-founder cartographer glassblower lens-grinder printer potter
shipwright stonemason weaver""".split()
GOODS = """blue glass, copper kettles, sailcloth, smoked eel, rope, slate, tin whistles, wool blankets, barley sugar, sea salt,
roof tiles, paper, cider, walking sticks, harness bells, clay pipes, lamp oil, wicker chairs, saddles, pewter mugs, felt
hats, almond cake, oak barrels, candle wax""".replace("\n", " ").split(", ")
DISHES = """barley soup, eel pie, plum dumplings, leek tart, smoked trout, pear cake, onion bread, lentil stew, crab broth,
honey biscuits, turnip mash, apple fritters, rye pancakes, mushroom pasties, walnut loaf, cabbage rolls, herring salad,
oat pudding, carrot jam, chestnut soup, goat cheese, fennel sausage, rhubarb crumble, bean cakes""".replace("\n", " ").split(", ")
MONTHS = "January February March April May June July August September October November December".split()
SIGHTS = ["the long stone bridge", "the round granary", "the old lighthouse", "the covered market", "the twin chapel",
          "the clock tower", "the walled garden", "the fish hall"]
BOOKS = ["The Patient Tide", "A Winter of Ropes", "Nine Lanterns", "The Ledger of Rain", "Salt and Slate", "The Slow Ferry",
         "Letters to a Weir", "The Copper Orchard", "Below the Mill", "The Last Toll", "Snow on the Quay", "The Glass Road"]


def make_towns():
    goods, dishes = rng.sample(GOODS, len(GOODS)), rng.sample(DISHES, len(DISHES))
    rivers, towns = rng.sample(RIVERS, len(RIVERS)), rng.sample(TOWNS, len(TOWNS))
    return [dict(name=towns[i], river=rivers[i], good=goods[i], dish=dishes[i], founded=rng.randint(1110, 1790),
                 people=rng.randint(21, 480) * 100, month=rng.choice(MONTHS), sight=rng.choice(SIGHTS), height=rng.randint(12, 940),
                 museum=rng.randint(1802, 1968), train=rng.randint(17, 95)) for i in range(len(towns))]


def make_people(towns):
    names = [f + " " + l for f, l in zip(rng.sample(FIRST, 20), rng.sample(LAST, 20))]
    people = []
    for i, name in enumerate(names):
        home, work = rng.sample(towns, 2)
        people.append(dict(name=name, home=home, work=work, craft=rng.choice(CRAFTS), born=rng.randint(1790, 1905),
                           book=BOOKS[i % len(BOOKS)], pupils=rng.randint(3, 41), masterpiece=rng.choice(SIGHTS)))
    return people


def history(t):
    return (f"{t['name']} lies on the river {t['river']}, {t['height']} metres above the sea. It was founded in {t['founded']}, when "
            f"ferrymen built a landing where the water is narrow enough for a rope. For two centuries the town lived from the "
            f"crossing and paid no tax but a yearly basket of fish. Its best-known building is {t['sight']}, which was repaired "
            f"after a flood and has been open to visitors ever since. About {t['people']:,} people live there today.")


def trade(t):
    return (f"The workshops of {t['name']} have been known for {t['good']} since the middle of the last century. At first the goods "
            f"went down the {t['river']} on flat boats; now they leave by rail, and a train takes {t['train']} minutes to the "
            f"coast. Every {t['month']} the makers show what they have made on the market square, and the mayor buys "
            f"the first piece with a coin that was struck for the purpose.")


def kitchen(t):
    return (f"Visitors to {t['name']} are offered {t['dish']}, which is said to have been cooked first for a delayed wedding party. "
            f"Each family has a recipe of its own and speaks of no other. A small museum of cooking was opened in {t['museum']} in "
            f"a former customs house; it keeps the ladles of eleven generations and lends them out on holidays.")


def life(p):
    return (f"{p['name']} was born in {p['home']['name']} in {p['born']} and learned to read from the labels of crates. After "
            f"an apprenticeship that was to last seven years and lasted four, {p['name'].split()[0]} became a {p['craft']} "
            f"in {p['work']['name']}, taught {p['pupils']} pupils there, and wrote the book “{p['book']}” about it.")


def squad(towns):
    articles = []
    for i, t in enumerate(towns):
        asked = [
            (history(t), [("On which river does %s lie?", t["river"]), ("When was %s founded?", str(t["founded"])),
                          ("How many people live in %s?", f"{t['people']:,}")]),
            (trade(t), [("What are the workshops of %s known for?", t["good"]), ("How long does a train from %s take to the coast?",
                                                                               f"{t['train']} minutes")]),
            (kitchen(t), [("What dish are visitors to %s offered?", t["dish"]),
                          ("In which year was the museum of cooking in %s opened?", str(t["museum"]))])]
        paragraphs = []
        for p, (context, questions) in enumerate(asked):
            form, answer = questions[i % len(questions)]
            references = [answer] + ([answer.split()[0]] if " minutes" in answer else [])
            paragraphs.append(dict(context=context, qas=[dict(
                id="%s-%d" % (t["name"].lower(), p), question=form % t["name"],
                answers=[dict(text=a, answer_start=context.index(a)) for a in references])]))
        articles.append(dict(title=t["name"], paragraphs=paragraphs))
    return articles


def titled(title, text):
    """A paragraph of HotpotQA: sentences begin with the blank before them."""
    sentences = text.split(". ")
    return [title, [(" " if i > 0 else "") + s + ("." if i < len(sentences) - 1 else "") for i, s in enumerate(sentences)]]


def two_hops(towns, people):
    entries = []
    for i, p in enumerate(people):
        hop = [("On which river does the town lie where %s was born?", p["home"], p["home"]["river"], history),
               ("What is made in the workshops of the town where %s became a master?", p["work"], p["work"]["good"], trade),
               ("Which dish is offered in the town where %s was born?", p["home"], p["home"]["dish"], kitchen),
               ("When was the town founded where %s was born?", p["home"], str(p["home"]["founded"]), history)][i % 4]
        form, town, answer, about = hop
        others = rng.sample([t for t in towns if t is not town], 3)
        context = [titled(p["name"], life(p)), titled(town["name"], about(town))]
        context += [titled(t["name"], about(t)) for t in others]
        rng.shuffle(context)
        entries.append(dict(_id="hop-%02d" % i, question=form % p["name"], answer=answer, type="bridge", level="medium",
                            supporting_facts=[[p["name"], 0], [town["name"], 0]], context=context))
    return entries


# ---- LongBench ----


def line(dataset, i, question, context, answers, classes=None):
    return dict(input=question, context=context, answers=answers, length=len(context.split()), dataset=dataset, language="en",
                all_classes=classes, _id="%s-%d" % (dataset, i))


def passages(texts):
    return "\n\n".join("Passage %d:\n%s" % (i + 1, t) for i, t in enumerate(texts))


def question_answering(towns, people):
    out = {}
    for name in ["narrativeqa", "qasper", "multifieldqa_en"]:
        chosen = rng.sample(towns, 3)
        out[name] = [line(name, i, "On which river does %s lie?" % t["name"], "\n\n".join(f(u) for u in chosen for f in (history, trade)),
                          [t["river"], "the river " + t["river"]]) for i, t in enumerate(chosen)]
    for name in ["hotpotqa", "2wikimqa", "musique"]:
        chosen = rng.sample(people, 3)
        out[name] = []
        for i, p in enumerate(chosen):
            texts = [life(p), history(p["home"])] + [history(t) for t in rng.sample([t for t in towns if t is not p["home"]], 3)]
            rng.shuffle(texts)
            out[name].append(line(name, i, "On which river does the town lie where %s was born?" % p["name"], passages(texts),
                                  [p["home"]["river"]]))
    return out


def summary(t):
    return (f"{t['name']} on the river {t['river']} was founded in {t['founded']}. It is known for {t['good']} and for {t['dish']}.")


def summaries(towns):
    out = {}
    for name in ["gov_report", "qmsum", "multi_news"]:
        question = "What was said about the town?" if name == "qmsum" else ""
        out[name] = [line(name, i, question, "\n".join(f(t) for f in (history, trade, kitchen)), [summary(t)])
                     for i, t in enumerate(rng.sample(towns, 2))]
    shown = rng.sample(towns, 5)
    out["samsum"] = []
    for i, t in enumerate(shown[3:]):
        talk = [("Dialogue: Ada: Have you been to %s?\nHugo: Yes, in %s. I brought you %s.\nSummary: "
                 % (u["name"], u["month"], u["good"]), "Hugo was in %s and brought Ada %s." % (u["name"], u["good"]))
                for u in shown[:3] + [t]]
        out["samsum"].append(line("samsum", i, talk[-1][0], "\n".join(d + s for d, s in talk[:-1]), [talk[-1][1]]))
    return out


def few_shot(towns):
    classes = ["Date", "Number of people", "River", "Food", "Product"]
    forms = [("When was %s founded?", 0), ("How many people live in %s?", 1), ("On which river does %s lie?", 2),
             ("What do people eat in %s?", 3), ("What is made in %s?", 4)]
    trec, trivia = [], []
    for i in range(3):
        shown = [(form % rng.choice(towns)["name"], classes[c]) for form, c in rng.sample(forms * 3, 10)]
        form, c = rng.choice(forms)
        trec.append(line("trec", i, "Question: %s\nType:" % (form % rng.choice(towns)["name"]),
                         "\n".join("Question: %s\nType: %s" % s for s in shown), [classes[c]], classes))
        chosen = rng.sample(towns, 3)
        parts = ["Passage:\n%s\nQuestion:\nWhat are the workshops of %s known for?\nAnswer:\n" % (trade(t), t["name"]) for t in chosen]
        trivia.append(line("triviaqa", i, parts[-1], "\n\n".join(p + t["good"] for p, t in zip(parts[:-1], chosen)),
                           [chosen[-1]["good"], chosen[-1]["good"].split()[-1]]))
    return dict(trec=trec, triviaqa=trivia)


def synthetic(towns):
    count, retrieval = [], []
    for i in range(3):
        texts = [history(t) for t in rng.sample(towns, rng.randint(2, 4))]
        repeated = texts + [rng.choice(texts) for _ in range(rng.randint(1, 3))]
        rng.shuffle(repeated)
        numbered = "\n\n".join("Paragraph %d: %s" % (n + 1, t) for n, t in enumerate(repeated))
        count.append(line("passage_count", i, "", numbered, [str(len(texts))]))
        chosen = rng.sample(towns, 8)
        n = rng.randrange(8)
        retrieval.append(line("passage_retrieval_en", i, summary(chosen[n]),
                              "\n\n".join("Paragraph %d: %s %s" % (k + 1, history(t), kitchen(t)) for k, t in enumerate(chosen)),
                              ["Paragraph %d" % (n + 1)]))
    return dict(passage_count=count, passage_retrieval_en=retrieval)


def code():
    lcc, repo = [], []
    for i in range(3):
        names = rng.sample(["width", "height", "depth", "weight", "speed", "price"], 4)
        body = "".join("    def %s(self):\n        return self._%s\n\n" % (n, n) for n in names[:3])
        context = "class Parcel:\n" + body + "    def %s(self):\n" % names[3]
        lcc.append(line("lcc", i, "", context, ["        return self._%s" % names[3]]))
        header = "# shapes.py\nclass Shape:\n    def __init__(self, %s, %s):\n        self.%s = %s\n        self.%s = %s\n\n" % (
            names[0], names[1], names[0], names[0], names[1], names[1])
        repo.append(line("repobench-p", i, "# main.py\nfrom shapes import Shape\n\nshape = Shape(1, 2)\nprint(shape.%s)\n" % names[0], header,
                         ["print(shape.%s)" % names[1]]))
    return {"lcc": lcc, "repobench-p": repo}


def write(path, text):
    with open(os.path.join(ROOT, path), "w", encoding="utf-8") as out:
        out.write(text)


def a_line_each(entries):
    return "[\n" + ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries) + "\n]"


def main():
    towns = make_towns()
    people = make_people(towns)
    write("qa/squad.json", '{"version": "1.1", "data": %s}\n' % a_line_each(squad(towns)))
    write("qa/hotpotqa.json", a_line_each(two_hops(towns, people)) + "\n")
    for part in (question_answering(towns, people), summaries(towns), few_shot(towns), synthetic(towns), code()):
        for name, lines in part.items():
            write("longbench/%s.jsonl" % name, "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in lines))


if __name__ == "__main__":
    main()

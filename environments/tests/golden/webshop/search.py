"""Writes search.json: made-up texts, queries, and how BM25 ranks the texts, computed text by text from the formula.

    pip install nltk==3.10.4 regex==2026.11.19
    python3 search.py > search.json

Words are UAX #29's as the regex package cuts them, stems are NLTK's Porter stemmer with its author's extensions; neither
shares anything with the Rust code. Scores are sums of 64-bit floats.
"""

import json
import math
import random
from collections import Counter

import regex
from nltk.stem.porter import PorterStemmer

K1, B, MOST = 0.9, 0.4, 50
STOP = set("a an and are as at be but by for if in into is it no not of on or such that the their then there these "
           "they this to was will with".split())
WORDS = """women's men's boys’ shirts shirt shirting dresses dressy dressing sleeve sleeves sleeveless cotton organic
organically washable washing machine machines relational relations happily happiness conditional operator operators
slip-resistant non-slip anti-slip 12x16 16×24 10.5 1,299.99 size: (pack 6) 4oz 8-ounce "quoted" it's don't the with for
and of vanilla chocolates chocolate caramelized flavoring flavors gift gifts ❤ ★ 🌸 waterproof adjustable adjustment
replacement electric electricity electrical wireless charging charger chargers tables table lamps decorative decoration
decorations living rooms hopefulness formality sensitivity skies ties dyed dyeing apologies geology agreed feed naïve
café grey gray""".split()
STEMMER = PorterStemmer(mode=PorterStemmer.MARTIN_EXTENSIONS)


def terms(text):
    for word in regex.split(r"(?w)\b", text):
        if any(letter.isalnum() for letter in word) or word in "❤★🌸" and word:
            word = regex.sub("['’]s$", "", word).lower()
            if word not in STOP:
                yield STEMMER.stem(word) if len(word) > 2 else word


def stored(length):
    if length < 24:
        return length
    rest = length - 24
    dropped = max(0, rest.bit_length() - 4)
    return 24 + (rest >> dropped << dropped)


def rank(query, texts, names):
    counts = [Counter(terms(text)) for text in texts]
    average = sum(sum(count.values()) for count in counts) / len(texts)
    scored = []
    for count, name in zip(counts, names):
        score = 0.0
        for term in terms(query):
            holders = sum(term in other for other in counts)
            idf = math.log(1 + (len(texts) - holders + 0.5) / (holders + 0.5))
            frequency = count[term]
            score += idf * frequency / (frequency + K1 * (1 - B + B * stored(sum(count.values())) / average))
        if score > 0:
            scored.append((-round(score, 5), name))
    return [[name, -score] for score, name in sorted(scored)[:MOST]]


def main():
    stream = random.Random(11)
    texts = [" ".join(stream.choices(WORDS, k=stream.choice([5, 20, 30, 45, 80]))) for _ in range(150)]
    names = [f"B{number:05}" for number in stream.sample(range(100000), len(texts))]
    queries = [" ".join(stream.choices(WORDS, k=stream.randint(1, 6))) for _ in range(40)]
    ranked = [{"query": query, "hits": rank(query, texts, names)} for query in queries]
    print(json.dumps({"texts": texts, "names": names, "queries": ranked}, ensure_ascii=False))


main()

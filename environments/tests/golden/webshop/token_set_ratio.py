"""Writes token_set_ratio.tsv: pairs of texts and thefuzz's ratio of them.

    pip install thefuzz==0.22.1 rapidfuzz==3.14.6
    python3 token_set_ratio.py > token_set_ratio.tsv
"""

import random

from thefuzz import fuzz

WORDS = "navy blue black x-large large small machine wash washable long sleeve sleeves short size color r.brown2060 " \
    "christmasgoo3302 non-slip non slip easy clean cleaning gluten free sugar-free 12 12.5 inch 20''x20'' 3' x 5' " \
    "café Über ☆ naïve_word living room rooms wood ('color', 'navy') \"two words\" twin/full | pack of 2 東京 été".split()


def text(stream):
    words = [stream.choice(WORDS) for _ in range(stream.randint(0, 5))]
    if words and stream.random() < 0.2:
        word = stream.choice(words)
        words.append(word[: stream.randint(1, len(word))])
    return stream.choice([" ", " ", ", ", "  "]).join(words)


stream = random.Random(5)
for _ in range(2000):
    a = text(stream)
    b = text(stream) if stream.random() < 0.6 else " ".join(stream.sample(a.split(), len(a.split()))) + " " + stream.choice(WORDS)
    print(a, b, fuzz.token_set_ratio(a, b), sep="\t")

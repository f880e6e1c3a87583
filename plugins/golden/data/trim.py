"""Copies golden numbers into this folder: python3 trim.py FOLDER

Whole files of the algorithms that are compared, and their rollouts.
"""

import pathlib
import shutil
import sys

ALGORITHMS = [
    "actfocus", "aem", "dapo", "gagpo", "gigpo", "grpo", "gspo", "hgpo", "kl", "policy_loss", "ppo_gae", "reinforce_pp",
    "rloo", "rlsd", "sdpo", "serl",
]
FILES = ["inputs/dist_a.json", "sdpo_dist.dist_a.json"]
CASES = ["base_a", "dyadic_a", "edges_a", "similar_a", "tiny_a"]

source = pathlib.Path(sys.argv[1])
target = pathlib.Path(__file__).parent
(target / "inputs").mkdir(exist_ok=True)
for name in FILES:
    shutil.copyfile(source / name, target / name)
for case in CASES:
    shutil.copyfile(source / "inputs" / f"{case}.json", target / "inputs" / f"{case}.json")
    for algorithm in ALGORITHMS:
        name = f"{algorithm}.{case}.json"
        shutil.copyfile(source / name, target / name)

"""Copies golden numbers into this folder: python3 trim.py FOLDER

Whole files of the algorithms that are compared and their rollouts; of ppo_gae, which is large, only the advantages and
returns that other variants are computed from, and the critic's losses.
"""

import json
import pathlib
import shutil
import sys

ALGORITHMS = ["actfocus", "dapo", "grpo", "gspo", "kl", "policy_loss", "sdpo"]
FILES = ["inputs/dist_a.json", "sdpo_dist.dist_a.json"]
CASES = ["base_a", "dyadic_a", "edges_a", "similar_a", "tiny_a"]
GAE = "verl_outcome_g0.99_l0.95"

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
    golden = json.loads((source / f"ppo_gae.{case}.json").read_text())
    golden["variants"] = [
        variant for variant in golden["variants"] if variant["variant"] == GAE or "value_loss" in variant["variant"]
    ]
    (target / f"ppo_gae.{case}.json").write_text(json.dumps(golden, separators=(",", ":")))

"""Tokens per second of transformers' generate and of a training step in PyTorch eager, one thread.

    python peer.py WORK MODEL ROUNDS

The kinds of work are those of host/torch/benches/speed.rs. Prints one number a round and the peak of resident memory in
MiB behind it, after a round that is not counted. Training is with AdamW(fused=True); `training-default` is with PyTorch's
default.
"""

import math
import resource
import sys
import time

import torch
from transformers import AutoModelForCausalLM

AT_ONCE, GROUP, TURNS = 64, 8, 5

torch.set_num_threads(1)
work, folder, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
# No stop token, so that every answer has its full length, and no processor that watches for one.
model.generation_config.eos_token_id = None
model.generation_config.pad_token_id = 0
torch.manual_seed(0)


def random_ids(rows, length):
    return torch.randint(0, model.config.vocab_size, (rows, length))


def lengths(count):
    """As in speed.rs: quantiles of the geometric distribution with mean 40, at most 256."""
    quantile = lambda i: min(256, max(1, math.ceil(math.log(1 - (i + 0.5) / count) / math.log(1 - 1 / 40))))
    return [quantile(i * 37 % count) for i in range(count)]


def generate(prompts, new):
    with torch.inference_mode():
        ids = model.generate(
            prompts,
            attention_mask=torch.ones_like(prompts),
            do_sample=True,
            top_k=0,
            temperature=1.0,
            max_new_tokens=new,
        )
    assert ids.shape == (prompts.shape[0], prompts.shape[1] + new)
    return ids


def sampling():
    generate(random_ids(AT_ONCE, 32), 128)
    return AT_ONCE * 128


def uneven():
    """A batch goes on until its longest answer ends; what is beyond an answer's own length is of no use."""
    all = lengths(4 * AT_ONCE)
    for start in range(0, len(all), AT_ONCE):
        generate(random_ids(AT_ONCE, 32), max(all[start : start + AT_ONCE]))
    return sum(all)


def turns():
    ids = random_ids(AT_ONCE // GROUP, 256).repeat_interleave(GROUP, 0)
    for turn in range(TURNS):
        ids = generate(ids, 32)
        ids = torch.cat([ids, random_ids(AT_ONCE, 32)], 1)
    return AT_ONCE * TURNS * 32


def trainer(rows, trained_from, fused=True):
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=fused)
    longest = max(len(row) for row in rows)
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    mask = torch.zeros_like(ids)
    labels = torch.full_like(ids, -100)
    for index, row in enumerate(rows):
        ids[index, : len(row)] = row
        mask[index, : len(row)] = 1
        labels[index, trained_from : len(row)] = row[trained_from:]
    # Without padding no mask is needed, and attention is faster.
    inputs = dict(input_ids=ids) if mask.all() else dict(input_ids=ids, attention_mask=mask)

    def step():
        optimizer.zero_grad()
        model(**inputs, labels=labels, use_cache=False).loss.backward()
        optimizer.step()
        return sum(len(row) for row in rows)

    return step


def rollouts():
    all = random_ids(32, 64 + 256)
    return [row[: 64 + length] for row, length in zip(all, lengths(32))]


if work.startswith("training"):
    run = trainer(list(random_ids(16, 128)), 1, fused=work == "training")
elif work == "rollouts":
    run = trainer(rollouts(), 64)
else:
    model.eval()
    run = dict(sampling=sampling, uneven=uneven, turns=turns)[work]
for round in range(rounds + 1):
    start = time.perf_counter()
    tokens = run()
    seconds = time.perf_counter() - start
    if round:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(f"{tokens / seconds:.1f} {peak}", flush=True)

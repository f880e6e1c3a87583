"""Holds imported folders against the Python packages `gguf` and `transformers`.

variants GGUF FOLDER   writes small GGUF files with the tokens of a real one, one for each rule that cuts texts
check GGUF MODEL       compares a folder with the GGUF file that it came from: weights if there are many, and token ids
"""

import json
import sys

import numpy as np
from gguf import GGUFReader, GGUFWriter, dequantize
from tokenizers import Regex, Tokenizer
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split
from transformers import AutoConfig, AutoTokenizer
from transformers.integrations.gguf.gguf_tokenizer_mapping import convert_gguf_tokenizer

TEXTS = [
    "", " ", "   ", "\n\n  \n", "Hello, world!", "  leading and trailing  ", "don't I'LL we'Ve 'S", "1234567890 12.5e-3", "a1b22c333",
    "naïve café Straße", "日本語のテキスト", "مرحبا", "🙂👍🏽 family 👨‍👩‍👧", "\u200b\u00a0\u3000 odd spaces", "tabs\t\tand\r\nlines\r\n\r\n",
    "def f(x):\n    return x**2  # <tag/>\n", "<|im_start|>user\nhi<|im_end|>\n", "<|endoftext|>x<|im_sta", "ﬁ ligature ½ ²", "x" * 300,
    "snake_case camelCase HTTPServer2", "!?... --- ///", "\x00\x01 control", "one  two   three    four", "١٢٣ ⅷ Ⅻ",
]
RULES = ["smollm", "qwen2", "llama-bpe", "gpt-2"]


def variants(source, folder):
    fields = GGUFReader(source).fields
    key = lambda name: fields[f"tokenizer.ggml.{name}"].contents()
    tokens = key("tokens")
    for rule in RULES:
        writer = GGUFWriter(f"{folder}/{rule}.gguf", "llama")
        writer.add_context_length(64)
        writer.add_embedding_length(8)
        writer.add_block_count(1)
        writer.add_feed_forward_length(8)
        writer.add_head_count(2)
        writer.add_layer_norm_rms_eps(1e-5)
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(rule)
        writer.add_token_list(tokens)
        writer.add_token_types(key("token_type"))
        writer.add_token_merges(key("merges"))
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        writer.add_add_bos_token(False)
        for name in ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]:
            writer.add_tensor(f"blk.0.{name}.weight", np.ones((8, 8), np.float32))
        for name in ["blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"]:
            writer.add_tensor(f"{name}.weight", np.ones(8, np.float32))
        writer.add_tensor("token_embd.weight", np.ones((len(tokens), 8), np.float16))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


NAMES = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}


def folder_name(name):
    fixed = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
    if name in fixed:
        return fixed[name]
    _, layer, part, kind = name.split(".")
    return f"model.layers.{layer}.{NAMES[part]}.{kind}"


def weights(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = np.frombuffer(file.read(), np.uint8)
    kinds = {"F32": "<f4", "F16": "<f2"}
    del header["__metadata__"]
    for name, about in header.items():
        start, end = about["data_offsets"]
        yield name, data[start:end].view(kinds[about["dtype"]]).reshape(about["shape"])


def check(source, model):
    reader = GGUFReader(source)
    heads = {"attn_q": reader.fields["llama.attention.head_count"].contents()}
    if "llama.attention.head_count_kv" in reader.fields:
        heads["attn_k"] = reader.fields["llama.attention.head_count_kv"].contents()
    ours, compared = dict(weights(f"{model}/model.safetensors")), 0
    assert len(ours) == len(reader.tensors), (len(ours), len(reader.tensors))
    for tensor in reader.tensors:
        theirs = dequantize(tensor.data, tensor.tensor_type)
        part = tensor.name.split(".")[-2]
        if part in heads:
            rows, columns = theirs.shape
            theirs = theirs.reshape(heads[part], rows // heads[part] // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)
        assert np.array_equal(ours[folder_name(tensor.name)].astype(np.float32), theirs), tensor.name
        compared += theirs.size
    described = {name: reader.fields[f"tokenizer.ggml.{name}"].contents() for name in ["tokens", "token_type", "merges"]}
    for name in ["model", "pre"]:
        kind = "tokenizer_type" if name == "model" else "pre_tokenizer_type"
        described[kind] = reader.fields[f"tokenizer.ggml.{name}"].contents()
    theirs, _ = convert_gguf_tokenizer("llama", described)
    if described["pre_tokenizer_type"] == "smollm":
        # transformers does not know this rule; llama.cpp's is: each number alone, then GPT-2's.
        theirs.pre_tokenizer = Sequence([Split(Regex(r"\p{N}"), "isolated"), ByteLevel(add_prefix_space=False)])
    plain, automatic = Tokenizer.from_file(f"{model}/tokenizer.json"), AutoTokenizer.from_pretrained(model)
    ids = 0
    for text in TEXTS:
        expected = theirs.encode(text, add_special_tokens=False).ids
        for encoded in (plain.encode(text, add_special_tokens=False).ids, automatic(text, add_special_tokens=False).input_ids):
            assert encoded == expected, (text, encoded, expected)
        assert plain.decode(expected, skip_special_tokens=False) == theirs.decode(expected, skip_special_tokens=False)
        ids += len(expected)
    config = AutoConfig.from_pretrained(model)
    assert config.model_type == "llama" and config.num_attention_heads == heads["attn_q"]
    print(f"{model}: {compared} weights and {ids} token ids are equal")


{"variants": variants, "check": check}[sys.argv[1]](*sys.argv[2:])

"""A small GGUF v3 writer for the model-making scripts: metadata, tensors and a vocabulary like the tiny reference models'.
Plain Python; tensor data is asked for one tensor at a time, so a large file needs little memory. Knows nothing of arithmetic."""
import itertools
import os
import struct

ALIGNMENT = 32
STRING, ARRAY = 8, 9
SCALAR_FORMATS = {"u8": (0, "<B"), "u32": (4, "<I"), "i32": (5, "<i"), "f32": (6, "<f"), "bool": (7, "<?"), "u64": (10, "<Q")}

# ggml's number, elements a block, bytes a block.
TYPES = {
    "F32": (0, 1, 4), "F16": (1, 1, 2), "BF16": (30, 1, 2),
    "Q4_0": (2, 32, 18), "Q4_1": (3, 32, 20), "Q5_0": (6, 32, 22), "Q5_1": (7, 32, 24), "Q8_0": (8, 32, 34),
    "IQ4_NL": (20, 32, 18), "MXFP4": (39, 32, 17),
    "Q2_K": (10, 256, 84), "Q3_K": (11, 256, 110), "Q4_K": (12, 256, 144), "Q5_K": (13, 256, 176), "Q6_K": (14, 256, 210),
    "IQ1_S": (19, 256, 50), "IQ1_M": (29, 256, 56), "IQ2_XXS": (16, 256, 66), "IQ2_XS": (17, 256, 74), "IQ2_S": (22, 256, 82),
    "IQ3_XXS": (18, 256, 98), "IQ3_S": (21, 256, 110), "IQ4_XS": (23, 256, 136), "TQ1_0": (34, 256, 54), "TQ2_0": (35, 256, 66),
}


def _string(text):
    data = text.encode("utf-8")
    return struct.pack("<Q", len(data)) + data


class GgufWriter:
    """Collects metadata and tensor infos in order, then writes the file in one pass."""

    def __init__(self):
        self.metadata, self.tensors = [], []

    def add(self, key, kind, value):
        """kind: "str", a scalar of SCALAR_FORMATS, or either of them in brackets for an array ("[f32]")."""
        if kind.startswith("["):
            element = kind[1:-1]
            type_id, data = self._array(element, value)
            body = struct.pack("<IQ", type_id, len(value)) + data
            type_id = ARRAY
        elif kind == "str":
            type_id, body = STRING, _string(value)
        else:
            type_id, layout = SCALAR_FORMATS[kind]
            body = struct.pack(layout, value)
        self.metadata.append(_string(key) + struct.pack("<I", type_id) + body)

    @staticmethod
    def _array(element, values):
        if element == "str":
            return STRING, b"".join(map(_string, values))
        type_id, layout = SCALAR_FORMATS[element]
        return type_id, b"".join(struct.pack(layout, v) for v in values)

    def add_tensor(self, name, dims, type_name, make_data):
        """dims: ggml order, row length first. make_data(n_blocks) returns the bytes when the file is written."""
        type_id, block_elems, block_bytes = TYPES[type_name]
        n_elems = 1
        for dim in dims:
            n_elems *= dim
        if dims[0] % block_elems:
            raise ValueError("%s: rows of %d values cannot be %s, whose blocks hold %d" % (name, dims[0], type_name, block_elems))
        self.tensors.append((name, dims, type_id, n_elems // block_elems, block_bytes, make_data))

    def write(self, path, holes=False):
        """Writes to a neighbour first and renames it, so that a file of that name is always whole. With holes the data is left out: the
        file has its length and takes no room."""
        infos, offset = [], 0
        for name, dims, type_id, n_blocks, block_bytes, _ in self.tensors:
            infos.append(_string(name) + struct.pack("<I%dQIQ" % len(dims), len(dims), *dims, type_id, offset))
            offset += -(-n_blocks * block_bytes // ALIGNMENT) * ALIGNMENT
        partial = str(path) + ".part"
        with open(partial, "wb") as out:
            out.write(b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(self.metadata)))
            out.write(b"".join(self.metadata) + b"".join(infos))
            out.write(bytes(-out.tell() % ALIGNMENT))
            if holes:
                out.truncate(out.tell() + offset)
            for name, _, _, n_blocks, block_bytes, make_data in [] if holes else self.tensors:
                data = make_data(n_blocks)
                if len(data) != n_blocks * block_bytes:
                    raise ValueError("%s: %d bytes made, %d needed" % (name, len(data), n_blocks * block_bytes))
                out.write(data)
                out.write(bytes(-len(data) % ALIGNMENT))
        os.replace(partial, path)


def add_llama_metadata(gguf, name, n_layers, n_embd, n_ff, n_heads, n_kv_heads, head_dim, n_ctx, n_vocab, rope_base, n_experts=0, n_experts_used=0):
    """What a `llama` file says about itself, or with experts a `qwen3moe` one, where n_ff is an expert's. The head size is written
    out, so it need not be n_embd / n_heads."""
    arch = "qwen3moe" if n_experts else "llama"
    gguf.add("general.architecture", "str", arch)
    gguf.add("general.name", "str", name)
    numbers = {"context_length": n_ctx, "embedding_length": n_embd, "block_count": n_layers, "feed_forward_length": n_ff,
               "attention.head_count": n_heads, "attention.head_count_kv": n_kv_heads, "attention.key_length": head_dim,
               "attention.value_length": head_dim, "rope.dimension_count": head_dim, "vocab_size": n_vocab}
    if n_experts:
        numbers.update({"expert_count": n_experts, "expert_used_count": n_experts_used, "expert_feed_forward_length": n_ff})
    for key, value in numbers.items():
        gguf.add("%s.%s" % (arch, key), "u32", value)
    gguf.add(arch + ".attention.layer_norm_rms_epsilon", "f32", 1e-5)
    gguf.add(arch + ".rope.freq_base", "f32", rope_base)


def add_vocabulary(gguf, n_vocab):
    """A SentencePiece-style vocabulary: unknown, BOS, EOS, 256 bytes, the letters, then syllables and words of syllables, each
    reachable by merging two earlier pieces."""
    tokens = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)]
    letters = ["\u2581", *"etaoinshrdlucmfwygpbvkxqjzETAOINSHRDLUCMFWYGPBVKXQJZ"]
    syllables = [c + v for v in "aeiou" for c in "tnshrdlcmfwgpbvk"]
    two = [a + b for a, b in itertools.product(syllables, repeat=2)]
    words = itertools.chain(letters, syllables, ("\u2581" + s for s in syllables), two, ("\u2581" + w for w in two),
                            (w + s for w in two for s in syllables))
    n_special = len(tokens)
    tokens += itertools.islice(words, n_vocab - n_special)
    if len(tokens) != n_vocab:
        raise ValueError("the syllables give %d tokens, not %d" % (len(tokens), n_vocab))
    gguf.add("tokenizer.ggml.model", "str", "llama")
    gguf.add("tokenizer.ggml.pre", "str", "default")
    gguf.add("tokenizer.ggml.tokens", "[str]", tokens)
    gguf.add("tokenizer.ggml.scores", "[f32]", [0.0] * n_special + [-float(i) for i in range(n_vocab - n_special)])
    gguf.add("tokenizer.ggml.token_type", "[i32]", [2, 3, 3] + [6] * 256 + [1] * (n_vocab - n_special))
    gguf.add("tokenizer.ggml.bos_token_id", "u32", 1)
    gguf.add("tokenizer.ggml.eos_token_id", "u32", 2)
    gguf.add("tokenizer.ggml.unknown_token_id", "u32", 0)
    gguf.add("tokenizer.ggml.add_bos_token", "bool", True)
    gguf.add("tokenizer.ggml.add_eos_token", "bool", False)
    gguf.add("general.quantization_version", "u32", 2)


def add_llama_tensors(gguf, n_layers, n_embd, n_ff, n_heads, n_kv_heads, head_dim, n_vocab, weight_type, make_weights, make_norm, n_experts=0, make_router=None):
    """The tensors of a `llama` with an output matrix of its own, or with experts of a `qwen3moe`. make_weights(n_blocks), make_norm(n_values)
    and make_router(n_values) give the data."""
    def matrix(name, *dims):
        gguf.add_tensor(name + ".weight", list(dims), weight_type, make_weights)

    def norm(name, n=n_embd):
        gguf.add_tensor(name + ".weight", [n], "F32", make_norm)

    norm("output_norm")
    matrix("token_embd", n_embd, n_vocab)
    matrix("output", n_embd, n_vocab)
    for layer in range(n_layers):
        block = "blk.%d." % layer
        norm(block + "attn_norm")
        matrix(block + "attn_q", n_embd, n_heads * head_dim)
        matrix(block + "attn_k", n_embd, n_kv_heads * head_dim)
        matrix(block + "attn_v", n_embd, n_kv_heads * head_dim)
        matrix(block + "attn_output", n_heads * head_dim, n_embd)
        norm(block + "ffn_norm")
        if not n_experts:
            matrix(block + "ffn_gate", n_embd, n_ff)
            matrix(block + "ffn_up", n_embd, n_ff)
            matrix(block + "ffn_down", n_ff, n_embd)
            continue
        norm(block + "attn_q_norm", head_dim)
        norm(block + "attn_k_norm", head_dim)
        gguf.add_tensor(block + "ffn_gate_inp.weight", [n_embd, n_experts], "F32", make_router)
        matrix(block + "ffn_gate_exps", n_embd, n_ff, n_experts)
        matrix(block + "ffn_up_exps", n_embd, n_ff, n_experts)
        matrix(block + "ffn_down_exps", n_ff, n_embd, n_experts)

"""Tiny random-weight F32 models, one or more an architecture, each described by what differs from a plain Llama-like one. The same
table gives the same bytes everywhere: weights are small whole numbers times a power of two, drawn without a libm function."""
import random
import struct

from gguf_writer import GgufWriter, add_vocabulary

N_VOCAB = 320
GATED, FUSED, PLAIN = "gated", "fused", "plain"      # feed-forward part: gate beside up, gate before up in one tensor, up alone
RMS, LAYER, LAYER_BIAS = "rms", "layer", "layer with bias"

# What a model is unless its row says otherwise.
DEFAULTS = {
    "n_layers": 3, "n_embd": 64, "n_ff": 96, "n_heads": 4, "n_kv_heads": 2, "head_dim": 16, "n_ctx": 256,
    "norm": RMS, "norms": ("attn_norm", "ffn_norm"), "embd_norm": False, "output_norm": True, "output": True, "output_bias": False,
    "fused_qkv": False, "qkv_bias": False, "o_bias": False, "ffn": GATED, "ffn_bias": False, "ff_key": None,
    "experts": None,                 # (number, used by a token, size, size of the shared one or 0)
    "dense_layers": 0,               # layers before those with experts
    "choice_bias": False,            # a bias for the choice of experts alone
    "twin_experts": False,           # the router gives experts 2i and 2i + 1 the same score
    "qk_norm": None,                 # None, "head" (one weight for every head), "each" (a row for each head), "all" (over all heads)
    "rope_dims": None,               # as many as the head has
    "rope_base": 10000.0,
    "epsilon": 1e-5,
    "keys": {},                      # further keys behind the architecture's prefix: name -> (kind, value)
    "extra": {},                     # further tensors: name -> dims
    "head_dim_keys": False,          # the head size is written out
}

# name -> (architecture, what differs, what is special about it)
MODELS = {
    "arcee": ("arcee", {"ffn": PLAIN}, "squared ReLU without a gate"),
    "baichuan-13b": ("baichuan", {"n_layers": 40, "n_embd": 32, "n_heads": 2, "n_kv_heads": 2, "n_ff": 32}, "40 layers: ALiBi in place of rotation"),
    "baichuan-7b": ("baichuan", {"n_layers": 32, "n_embd": 32, "n_heads": 2, "n_kv_heads": 2, "n_ff": 32}, "32 layers: as llama"),
    "bloom": ("bloom", {"norm": LAYER_BIAS, "n_heads": 4, "n_kv_heads": 4, "fused_qkv": True, "qkv_bias": True, "o_bias": True, "ffn": PLAIN, "ffn_bias": True,
                        "norms": ("attn_norm", "ffn_norm"), "embd_norm": True, "output": False}, "ALiBi, a norm of the embeddings"),
    "chatglm": ("chatglm", {"fused_qkv": True, "qkv_bias": True, "ffn": FUSED, "rope_dims": 8}, "fused tensors, half of each head rotated"),
    "codeshell": ("codeshell", {"norm": LAYER_BIAS, "fused_qkv": True, "qkv_bias": True, "o_bias": True, "ffn": PLAIN, "ffn_bias": True},
                  "layer norm, biases everywhere, half-split pairs"),
    "cohere2": ("cohere2", {"n_layers": 4, "norm": LAYER, "norms": ("attn_norm",), "output": False,
                            "keys": {"attention.sliding_window": ("u32", 8), "logit_scale": ("f32", 0.25)}},
                "parallel residual; window 8 on three of four layers, the fourth without rotation; logit scale"),
    "command-r": ("command-r", {"norm": LAYER, "norms": ("attn_norm",), "output": False, "keys": {"logit_scale": ("f32", 0.0625)}},
                  "parallel residual, layer norm without bias, logit scale"),
    "dots1": ("dots1", {"n_kv_heads": 4, "qk_norm": "head", "experts": (8, 3, 32, 32), "dense_layers": 1, "choice_bias": True,
                        "keys": {"expert_weights_norm": ("bool", True), "expert_weights_scale": ("f32", 2.5), "expert_gating_func": ("u32", 2)}},
              "sigmoid gating with a bias for the choice, shared expert, a dense layer first"),
    # Under softmax gating a group is as good as its best expert (DeepSeek-V2); the reference engine takes its best two, as under sigmoid
    # gating (DeepSeek-V3). Where experts are twins, both put groups in the same order. Three pairs often lie in more groups than two.
    "dots1-groups": ("dots1", {"n_kv_heads": 4, "qk_norm": "head", "experts": (16, 6, 16, 16), "twin_experts": True,
                               "keys": {"expert_group_count": ("u32", 4), "expert_group_used_count": ("u32", 2), "expert_weights_norm": ("bool", False),
                                        "expert_weights_scale": ("f32", 4.0), "expert_gating_func": ("u32", 1)}},
                     "softmax gating with two of four groups of experts, weights scaled and not renormalised"),
    "ernie4_5": ("ernie4_5", {"output": False}, "as llama"),
    "ernie4_5-moe": ("ernie4_5-moe", {"output": False, "experts": (6, 2, 32, 48), "dense_layers": 1, "choice_bias": True,
                                      "keys": {"interleave_moe_layer_step": ("u32", 1)}},
                     "softmax over all experts, renormalised, with a bias for the choice"),
    "exaone": ("exaone", {"extra": {"rope_freqs": [8]}}, "half-split pairs and llama3-style factors"),
    "exaone4": ("exaone4", {"norms": ("post_attention_norm", "post_ffw_norm"), "qk_norm": "head"}, "only post norms, a norm for query and key heads"),
    "exaone4-32b": ("exaone4", {"n_layers": 64, "n_embd": 32, "n_heads": 2, "n_kv_heads": 1, "n_ff": 32,
                                "norms": ("post_attention_norm", "post_ffw_norm"), "qk_norm": "head",
                                "keys": {"attention.sliding_window": ("u32", 8)}},
                    "window 8 on three of four layers, the fourth without rotation"),
    "falcon-40b": ("falcon", {"norm": LAYER_BIAS, "norms": ("attn_norm", "attn_norm_2"), "fused_qkv": True, "ffn": PLAIN, "output": False},
                   "parallel residual with two norms"),
    "falcon-7b": ("falcon", {"norm": LAYER_BIAS, "norms": ("attn_norm",), "n_kv_heads": 1, "fused_qkv": True, "ffn": PLAIN},
                  "parallel residual with one norm, multi-query attention"),
    "glm4": ("glm4", {"norms": ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"), "qkv_bias": True, "ffn": FUSED, "rope_dims": 8},
             "post norms, fused gate and up, half of each head rotated"),
    "glm4moe": ("glm4moe", {"n_layers": 4, "norms": ("attn_norm", "post_attention_norm"), "qkv_bias": True, "qk_norm": "head", "rope_dims": 8,
                            "experts": (8, 2, 32, 32), "dense_layers": 1, "choice_bias": True,
                            "keys": {"expert_weights_norm": ("bool", True), "expert_weights_scale": ("f32", 1.5)}},
                "sigmoid gating without a key that says so, half of each head rotated"),
    "granite": ("granite", {"output": False, "keys": {"logit_scale": ("f32", 3.0), "residual_scale": ("f32", 0.22),
                                                     "embedding_scale": ("f32", 6.0), "attention.scale": ("f32", 0.4)}},
                "scales of embedding, residual stream, attention and logits (a divisor)"),
    "granite-norope": ("granite", {"output": False, "keys": {"logit_scale": ("f32", 3.0), "rope.scaling.finetuned": ("bool", False)}},
                       "a key switches the rotation off"),
    "granitemoe": ("granitemoe", {"output": False, "n_ff": 32, "experts": (6, 3, 32, 0),
                                  "keys": {"logit_scale": ("f32", 3.0), "residual_scale": ("f32", 0.22), "embedding_scale": ("f32", 6.0),
                                           "attention.scale": ("f32", 0.4)}},
                   "scales, renormalised experts"),
    "hunyuan-dense": ("hunyuan-dense", {"qk_norm": "head", "head_dim_keys": True, "head_dim": 32}, "query and key heads normalised after the rotation"),
    "hunyuan-moe": ("hunyuan-moe", {"qk_norm": "head", "n_ff": 32, "experts": (6, 2, 32, 48)},
                    "query and key heads normalised after the rotation, shared expert"),
    "internlm2": ("internlm2", {}, "as llama"),
    "maincoder": ("maincoder", {"qk_norm": "head"}, "query and key heads normalised after the rotation"),
    "minicpm": ("minicpm", {"keys": {"logit_scale": ("f32", 3.0), "residual_scale": ("f32", 0.4), "embedding_scale": ("f32", 6.0)}},
                "scales of embedding, residual stream and logits (a divisor)"),
    "mpt": ("mpt", {"norm": LAYER, "n_kv_heads": 2, "fused_qkv": True, "ffn": PLAIN, "output": False, "n_heads": 6, "n_embd": 96,
                    "keys": {"attention.max_alibi_bias": ("f32", 8.0), "attention.clamp_kqv": ("f32", 1.0)}},
            "ALiBi with six heads, no biases, queries, keys and values clamped"),
    "nemotron": ("nemotron", {"norm": LAYER_BIAS, "ffn": PLAIN, "rope_dims": 8}, "squared ReLU, layer norm, half of each head rotated"),
    "olmo": ("olmo", {"norm": LAYER, "norms": (), "output_norm": False, "keys": {"attention.clamp_kqv": ("f32", 0.9)}},
             "layer norm without weights; queries, keys and values clamped"),
    "olmo2-window": ("olmo2", {"n_layers": 4, "norms": ("post_attention_norm", "post_ffw_norm"), "qk_norm": "all",
                              "keys": {"attention.sliding_window": ("u32", 8), "rope.scaling.type": ("str", "yarn"), "rope.scaling.factor": ("f32", 4.0),
                                       "rope.scaling.original_context_length": ("u32", 32)}},
                     "window 8 on three of four layers, whose rotation is not scaled; YaRN on the fourth"),
    "olmoe": ("olmoe", {"n_kv_heads": 4, "qk_norm": "all", "n_ff": 32, "experts": (8, 3, 32, 0)}, "a norm over all query heads; weights not renormalised"),
    "orion": ("orion", {"norm": LAYER_BIAS}, "layer norm"),
    "pangu-embedded": ("pangu-embedded", {"qkv_bias": True, "o_bias": True}, "biases of attention, half-split pairs"),
    "phi2": ("phi2", {"norm": LAYER_BIAS, "norms": ("attn_norm",), "qkv_bias": True, "o_bias": True, "ffn": PLAIN, "ffn_bias": True, "rope_dims": 8,
                      "output_bias": True}, "parallel residual, biases everywhere and on the logits"),
    "plamo": ("plamo", {"norms": ("attn_norm",)}, "parallel residual with RMS norm"),
    "qwen": ("qwen", {"n_kv_heads": 4, "fused_qkv": True, "qkv_bias": True, "ff_key": 192}, "the key feed_forward_length counts gate and up together"),
    # The reference engine reads no epsilon for qwen2vl and computes with 0.
    "qwen2vl": ("qwen2vl", {"qkv_bias": True, "output": False, "epsilon": 1e-12, "keys": {"rope.dimension_sections": ("[i32]", [2, 3, 3, 0])}},
                "the text part: for text, the sections of the rotation all count the same position"),
    "qwen3vl": ("qwen3vl", {"qk_norm": "head", "head_dim_keys": True, "head_dim": 32, "keys": {"rope.dimension_sections": ("[i32]", [6, 5, 5, 0])}},
                "the text part, as qwen2vl"),
    "refact": ("refact", {"n_kv_heads": 1}, "ALiBi with RMS norm, multi-query attention"),
    "seed_oss": ("seed_oss", {"norms": ("attn_norm", "post_attention_norm"), "qkv_bias": True, "head_dim_keys": True, "head_dim": 32},
                 "post_attention_norm is the norm before the feed-forward part"),
    "smollm3": ("smollm3", {"n_layers": 4, "output": False}, "the fourth layer does not rotate"),
    "stablelm": ("stablelm", {"norm": LAYER_BIAS, "rope_dims": 4, "qkv_bias": True}, "layer norm, a quarter of each head rotated"),
    "stablelm-12b": ("stablelm", {"norm": LAYER_BIAS, "norms": ("attn_norm",), "rope_dims": 4, "qk_norm": "each"},
                     "parallel residual, a layer norm for each query and key head"),
    "starcoder": ("starcoder", {"norm": LAYER_BIAS, "n_ctx": 64, "n_kv_heads": 1, "fused_qkv": True, "qkv_bias": True, "o_bias": True, "ffn": PLAIN,
                                "ffn_bias": True, "output": False, "extra": {"position_embd": [64, 64]}}, "learned positions, multi-query attention"),
    "xverse": ("xverse", {}, "as llama"),
}


def _table(spread):
    """15 values, the middle ones more often: sums of two numbers of 0 to 7, times a step that gives about the spread."""
    step = spread / 3.24
    exponent = 0
    while step * 2 ** exponent < 16:
        exponent += 1
    step = round(step * 2 ** exponent) / 2 ** exponent
    return [(a + b - 7) * step for a in range(8) for b in range(8)]


class TinyModel:
    """One row of MODELS as a file."""

    def __init__(self, name):
        self.arch, changes, self.note = MODELS[name]
        self.p = {**DEFAULTS, **changes}
        unknown = set(self.p) - set(DEFAULTS)
        if unknown:
            raise ValueError("%s: %s not known" % (name, ", ".join(sorted(unknown))))
        self.rng = random.Random("tiny " + name)
        self.gguf = GgufWriter()
        self._metadata()
        self._tensors()

    def write(self, path):
        self.gguf.write(path)

    def _numbers(self, around, spread):
        table = [around + value for value in _table(spread)]

        def make(n):
            return struct.pack("<%df" % n, *self.rng.choices(table, k=n))
        return make

    def _metadata(self):
        p, gguf = self.p, self.gguf
        gguf.add("general.architecture", "str", self.arch)
        gguf.add("general.name", "str", "tiny random model")
        sizes = {"context_length": p["n_ctx"], "embedding_length": p["n_embd"], "block_count": p["n_layers"],
                 "feed_forward_length": p["ff_key"] or p["n_ff"], "attention.head_count": p["n_heads"],
                 "attention.head_count_kv": p["n_kv_heads"], "rope.dimension_count": p["rope_dims"] or p["head_dim"], "vocab_size": N_VOCAB}
        if p["experts"]:
            n, used, size, shared = p["experts"]
            sizes.update({"expert_count": n, "expert_used_count": used, "expert_feed_forward_length": size})
            if shared:
                sizes.update({"expert_shared_count": 1, "expert_shared_feed_forward_length": shared})
            if p["dense_layers"]:
                sizes["leading_dense_block_count"] = p["dense_layers"]
        if p["head_dim_keys"]:
            sizes.update({"attention.key_length": p["head_dim"], "attention.value_length": p["head_dim"]})
        for key, value in sizes.items():
            gguf.add("%s.%s" % (self.arch, key), "u32", value)
        epsilon = "attention.layer_norm_rms_epsilon" if p["norm"] == RMS else "attention.layer_norm_epsilon"
        gguf.add("%s.%s" % (self.arch, epsilon), "f32", p["epsilon"])
        gguf.add("%s.rope.freq_base" % self.arch, "f32", p["rope_base"])
        for key, (kind, value) in p["keys"].items():
            gguf.add("%s.%s" % (self.arch, key), kind, value)
        add_vocabulary(gguf, N_VOCAB)

    def _matrix(self, name, n_in, n_out, bias=False):
        # Wide enough that attention is uneven and positions matter.
        self.gguf.add_tensor(name + ".weight", [n_in, n_out], "F32", self._numbers(0, 0.15))
        if bias:
            self._row(name + ".bias", n_out, 0, 0.1)

    def _row(self, name, n, around, spread):
        self.gguf.add_tensor(name, [n], "F32", self._numbers(around, spread))

    def _norm(self, name, dims, may_have_bias=True):
        # Different from 1, so that leaving one out is noticed.
        self.gguf.add_tensor(name + ".weight", dims, "F32", self._numbers(1, 0.2))
        if may_have_bias and self.p["norm"] == LAYER_BIAS:
            self._row(name + ".bias", dims[0], 0, 0.1)

    def _tensors(self):
        p = self.p
        for name, dims in p["extra"].items():
            factors = len(dims) == 1
            self.gguf.add_tensor(name + ".weight", dims, "F32", self._numbers(1, 0.25) if factors else self._numbers(0, 0.15))
        if p["embd_norm"]:
            self._norm("token_embd_norm", [p["n_embd"]])
        if p["output_norm"]:
            self._norm("output_norm", [p["n_embd"]])
        self._matrix("token_embd", p["n_embd"], N_VOCAB)
        if p["output"]:
            self._matrix("output", p["n_embd"], N_VOCAB, p["output_bias"])
        for layer in range(p["n_layers"]):
            self._layer("blk.%d." % layer, p["experts"] and layer >= p["dense_layers"])

    def _layer(self, block, has_experts):
        p = self.p
        for norm in p["norms"]:
            self._norm(block + norm, [p["n_embd"]])
        self._attention(block, p["n_heads"] * p["head_dim"], p["n_kv_heads"] * p["head_dim"])
        if has_experts:
            self._experts(block, *p["experts"])
            return
        if p["ffn"] == GATED:
            self._matrix(block + "ffn_gate", p["n_embd"], p["n_ff"], p["ffn_bias"])
        self._matrix(block + "ffn_up", p["n_embd"], p["n_ff"] * (2 if p["ffn"] == FUSED else 1), p["ffn_bias"])
        self._matrix(block + "ffn_down", p["n_ff"], p["n_embd"], p["ffn_bias"])

    def _router(self, name, n_embd, n):
        if not self.p["twin_experts"]:
            self._matrix(name, n_embd, n)
            return
        numbers = self._numbers(0, 0.15)
        self.gguf.add_tensor(name + ".weight", [n_embd, n], "F32", lambda _: b"".join(2 * numbers(n_embd) for _ in range(n // 2)))

    def _experts(self, block, n, _, size, shared):
        n_embd = self.p["n_embd"]
        self._router(block + "ffn_gate_inp", n_embd, n)
        for part, dims in (("gate", [n_embd, size, n]), ("up", [n_embd, size, n]), ("down", [size, n_embd, n])):
            self.gguf.add_tensor(block + "ffn_%s_exps.weight" % part, dims, "F32", self._numbers(0, 0.15))
        if self.p["choice_bias"]:
            self._row(block + "exp_probs_b.bias", n, 0, 0.2)
        if shared:
            self._matrix(block + "ffn_gate_shexp", n_embd, shared)
            self._matrix(block + "ffn_up_shexp", n_embd, shared)
            self._matrix(block + "ffn_down_shexp", shared, n_embd)

    def _attention(self, block, n_q, n_kv):
        p = self.p
        if p["fused_qkv"]:
            self._matrix(block + "attn_qkv", p["n_embd"], n_q + 2 * n_kv, p["qkv_bias"])
        else:
            for part, n_out in (("q", n_q), ("k", n_kv), ("v", n_kv)):
                self._matrix(block + "attn_" + part, p["n_embd"], n_out, p["qkv_bias"])
        self._matrix(block + "attn_output", n_q, p["n_embd"], p["o_bias"])
        if p["qk_norm"]:
            for part, n_heads in (("q", p["n_heads"]), ("k", p["n_kv_heads"])):
                dims = {"head": [p["head_dim"]], "each": [p["head_dim"], n_heads], "all": [p["head_dim"] * n_heads]}[p["qk_norm"]]
                self._norm(block + "attn_%s_norm" % part, dims, may_have_bias=False)

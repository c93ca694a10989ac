#!/usr/bin/env python3
"""Vocabularies for the tokenizer tests, cut down from large ones, and what llama.cpp makes of awkward texts with them.

    tools/dev/make_vocab_cases.py FOLDER OUT     FOLDER: the ggml-vocab-*.gguf of llama.cpp; OUT: for tests/golden/vocabs.tar.xz

Writes NAME.gguf and NAME.gguf.extra.json in the form of the reference data (text, ids, ids_special, ids_add_special, detok …).
Needs the llama-cpp-python package (0.3.36 for the committed data). The texts are those of the package's .inp files and TEXTS below.
"""
import ctypes
import json
import struct
import sys
from pathlib import Path

import llama_cpp
from gguf_writer import GgufWriter

TEXTS = [
    "", " ", "  ", "\n", "\t \n", "  two  spaces   and\ttabs\n\nnewlines  ", "word ", " word", "a" * 200, "ab " * 60,
    "Ｆｕｌｌｗｉｄｔｈ　ｔｅｘｔ ﬁ ﬂ ½ ①②③ ℃ ㌔ ﷺ", "naïve café Ÿ Å Å ﬀ e\u0301 n\u0303o 한국어 조선말 각", "ΑΒΓ Ωmega İstanbul ẞ ß Straße",
    "<mask> a <mask>b  <mask>c</s><s> x <unk>", "[CLS] hello [MASK] world [SEP] [UNK]", "<bos>hi<eos> <start_of_turn>user\n</s>",
    "a\u200bb\u00adc\u2028d\u0085e\u0000f\ufeffg\ufffdh", "中文字符abc漢字テスト カタカナ", "don't stop!? (really) $5.00 + 3% ~^` =<>|",
    " ▁ ▁a▁ ▁▁", "🤗🤗 👩‍👩‍👧 🇩🇪 🏴", "ǅ ǆ Ǆ Ᾱ ά ѐ й", "\U00010400\U00010428 \U0001d400", "मानक हिन्दी ไทย عربي עברית",
    "unaffable unaffordability", "https://example.org/a_b-c?d=1&e=2", "x\n\n\ny\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\nz",
]


def read_metadata(path):
    """{key: (type name, value)}; arrays as ("[f32]", [...]). Only the types that vocabularies use."""
    data, at = path.read_bytes(), 4
    names = {0: ("u8", "<B"), 1: ("i8", "<b"), 4: ("u32", "<I"), 5: ("i32", "<i"), 6: ("f32", "<f"), 7: ("bool", "<?"), 10: ("u64", "<Q")}

    def take(layout):
        nonlocal at
        value = struct.unpack_from(layout, data, at)[0]
        at += struct.calcsize(layout)
        return value

    def take_value(type_id):
        nonlocal at
        if type_id == 8:
            n = take("<Q")
            at += n
            return "str", data[at - n:at].decode("utf-8")
        if type_id == 9:
            element, n = take("<I"), take("<Q")
            values = [take_value(element) for _ in range(n)]
            return "[%s]" % values[0][0], [value for _, value in values]
        return names[type_id][0], take(names[type_id][1])

    take("<I"), take("<Q")
    metadata = {}
    for _ in range(take("<Q")):
        _, key = take_value(8)
        metadata[key] = take_value(take("<I"))
    return metadata


def cut(metadata, keep, changes):
    """The same vocabulary with the tokens `keep` (old ids, ascending) alone. `changes`: keys with another value, or None."""
    new_id = {old: new for new, old in enumerate(keep)}
    tokens = metadata["tokenizer.ggml.tokens"][1]
    kept = {tokens[i] for i in keep}
    out = GgufWriter()
    for key, (kind, value) in {**metadata, **changes}.items():
        if value is None or not (key.startswith("tokenizer.ggml.") or key == "general.architecture"):
            continue
        if key.endswith("_token_id"):
            value = new_id[value]
        elif key == "tokenizer.ggml.merges":
            value = [m for m in value if all(part in kept for part in (*split_merge(m), "".join(split_merge(m))))]
        elif kind.startswith("[") and len(value) == len(tokens):
            value = [value[i] for i in keep]
        out.add(key, kind, value)
    return out


def split_merge(merge):
    blank = merge.index(" ", 1)
    return merge[:blank], merge[blank + 1:]


class Reference:
    def __init__(self, path):
        params = llama_cpp.llama_model_default_params()
        params.vocab_only = True
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.n_vocab = llama_cpp.llama_vocab_n_tokens(self.vocab)

    def encode(self, text, add_special, parse_special):
        data = text.encode("utf-8")
        ids = (llama_cpp.llama_token * (len(data) * 3 + 16))()
        n = llama_cpp.llama_tokenize(self.vocab, data, len(data), ids, len(ids), add_special, parse_special)
        assert n >= 0
        return list(ids[:n])

    def decode(self, ids, special):
        room = ctypes.create_string_buffer(len(ids) * 256 + 16)
        n = llama_cpp.llama_detokenize(self.vocab, (llama_cpp.llama_token * max(1, len(ids)))(*ids), len(ids), room, len(room), False, special)
        assert n >= 0
        return room.raw[:n].decode("utf-8")

    def pieces(self, ids):
        room, out = ctypes.create_string_buffer(4096), b""
        for token in ids:
            n = llama_cpp.llama_token_to_piece(self.vocab, token, room, len(room), 0, True)
            out += room.raw[:n]
        return out.decode("utf-8")

    def case(self, text):
        ids, special = self.encode(text, False, False), self.encode(text, False, True)
        case = {"text": text, "ids": ids, "ids_special": special, "ids_add_special": self.encode(text, True, True),
                "detok": self.decode(ids, True), "pieces": self.pieces(ids)}
        if special != ids:
            case["detok_special"], case["detok_special_omitted"] = self.decode(special, True), self.decode(special, False)
        return case


def unigram_variants(folder):
    """XLM-RoBERTa's vocabulary, and cuts of it with the keys that change how spaces are treated."""
    metadata = read_metadata(folder / "ggml-vocab-nomic-bert-moe.gguf")
    tokens, types = metadata["tokenizer.ggml.tokens"][1], metadata["tokenizer.ggml.token_type"][1]
    special = [i for i, kind in enumerate(types) if kind in (2, 3)]
    keep = lambda n: sorted({*range(n), *special})
    yield "unigram-charsmap", cut(metadata, keep(12000), {})
    for prefix in (True, False):
        for merge in (True, False):
            # Some words are user-defined here, one of them with a space inside, and some are unused.
            kinds = [4 if tokens[i] in ("▁word", "two") else 5 if i % 97 == 0 and types[i] == 1 else types[i] for i in range(len(types))]
            changes = {"tokenizer.ggml.add_space_prefix": ("bool", prefix), "tokenizer.ggml.remove_extra_whitespaces": ("bool", merge),
                       "tokenizer.ggml.token_type": ("[i32]", kinds), "tokenizer.ggml.precompiled_charsmap": ("[u8]", None),
                       "general.architecture": ("str", "t5"), "tokenizer.ggml.add_bos_token": ("bool", None), "tokenizer.ggml.add_eos_token": ("bool", None)}
            yield "unigram-%s-%s" % ("prefix" if prefix else "bare", "merged" if merge else "kept"), cut(metadata, keep(2500), changes)


def merge_list(name, n_merges):
    """The single characters (or bytes) that the texts use, the special tokens, and what the first merges make of them."""
    def cuts(folder):
        metadata = read_metadata(folder / ("ggml-vocab-%s.gguf" % name))
        tokens, types = metadata["tokenizer.ggml.tokens"][1], metadata["tokenizer.ggml.token_type"][1]
        id_of = {token: i for i, token in enumerate(tokens)}
        special = {i for i, kind in enumerate(types) if kind not in (1, 5)}
        if len(special) > 600:  # rows of reserved entries
            special = set(sorted(special)[:300]) | {i for key, (kind, i) in metadata.items() if key.endswith("_token_id")}
        special |= {id_of[name] for name in ("</s>", "<|tool_response>") if name in id_of}  # known by name, whatever their type
        characters = {c for text in TEXTS for c in text}
        keep = special | {i for i, token in enumerate(tokens) if len(token) == 1 and (ord(token) < 0x180 or token in characters)}
        merges, n = metadata["tokenizer.ggml.merges"][1], 0
        for merge in merges:  # later merges build on earlier ones, mostly
            ids = [id_of.get(part) for part in (*split_merge(merge), "".join(split_merge(merge)))]
            if n < n_merges and ids[0] in keep and ids[1] in keep and ids[2] is not None:
                keep.add(ids[2])
                n += 1
        for key, (kind, value) in metadata.items():
            if key.endswith("_token_id"):
                keep.add(value)
        yield name, cut(metadata, sorted(keep), {"tokenizer.chat_template": ("str", None)})
    return cuts


def word_piece(folder):
    metadata = read_metadata(folder / "ggml-vocab-bert-bge.gguf")
    tokens = metadata["tokenizer.ggml.tokens"][1]
    keep = [i for i, token in enumerate(tokens) if i < 9000 and not token.startswith("[unused") or len(token.lstrip("▁")) == 1]
    for name, changes in (("wordpiece-uncased", {}), ("wordpiece-cased", {"tokenizer.ggml.normalizer.lowercase": ("bool", False)}),
                          ("wordpiece-accents", {"tokenizer.ggml.normalizer.strip_accents": ("bool", False)})):
        # llama.cpp looks for [CLS] and [SEP] by number unless told; the cut moves them.
        keys = {"tokenizer.ggml.bos_token_id": ("u32", tokens.index("[CLS]"))}
        yield name, cut(metadata, keep, {**keys, **changes})


def sentence_piece(folder):
    metadata = read_metadata(folder / "ggml-vocab-baichuan.gguf")
    tokens, types = metadata["tokenizer.ggml.tokens"][1], metadata["tokenizer.ggml.token_type"][1]
    yield "baichuan", cut(metadata, [i for i, kind in enumerate(types) if i < 6000 or kind != 1 or len(tokens[i]) == 1 and ord(tokens[i]) < 0x3000], {})


FAMILIES = [sentence_piece, unigram_variants, word_piece, merge_list("gemma-4", 4000)] + [
    merge_list(name, 1500) for name in ("aquila", "command-r", "deepseek-coder", "deepseek-llm", "gpt-neox", "mpt", "qwen35", "refact", "starcoder")]


def main():
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    texts = list(TEXTS)
    for path in sorted(folder.glob("*.inp")):
        texts += [text for text in path.read_text().split("\n__ggml_vocab_test__\n") if text not in texts]
    quiet = llama_cpp.llama_log_callback(lambda *message: None)
    llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
    for family in FAMILIES:
        for name, writer in family(folder):
            path = out / (name + ".gguf")
            writer.write(path)
            reference = Reference(path)
            cases = [reference.case(text) for text in texts]
            (out / (name + ".gguf.extra.json")).write_text(json.dumps({"vocab": path.name, "n_vocab": reference.n_vocab, "cases": cases}, ensure_ascii=False, indent=0))
            print(name, path.stat().st_size, len(cases), "cases", sum(len(case["ids"]) for case in cases), "ids")


main()

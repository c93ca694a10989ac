#!/usr/bin/env python3
"""Write tests/text/pretokenizer_cases.json: how the pre-tokenizers' original patterns cut awkward strings, by Python's `regex`.

    python3 -m venv .venv && .venv/bin/pip install regex && .venv/bin/python tools/dev/make_pretokenizer_cases.py

The patterns here are those of the models' tokenizer.json files (or tiktoken pattern), word for word; quern's table writes some of them
otherwise, so that long runs cost linear time, and must cut alike. Only names that no vocabulary in tests/golden covers.
"""
import json
import sys
from pathlib import Path

import regex

CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
TAIL = r"|\s*[\r\n]+|\s+(?!\S)|\s+"


def cased(digits, symbols_tail=r"[\r\n/]*"):
    head = r"[^\r\n\p{L}\p{N}]?"
    return (head + "[" + UPPER + "]*[" + LOWER + "]+" + CONTRACTION + "?|" + head + "[" + UPPER + "]+[" + LOWER + "]*" + CONTRACTION + "?|" + digits +
            r"| ?[^\s\p{L}\p{N}]+" + symbols_tail + TAIL)


def kimi():
    head = r"[^\r\n\p{L}\p{N}]?"
    upper, lower = "[[" + UPPER + r"]&&[^\p{Han}]]", "[[" + LOWER + r"]&&[^\p{Han}]]"
    return (r"[\p{Han}]+|" + head + upper + "*" + lower + "+" + CONTRACTION + "?|" + head + upper + "+" + lower + "*" + CONTRACTION +
            r"?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + TAIL)


LLAMA3_HEAD = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
JAIS_RUNS = "".join(r"|\s{%s}(?!\S)" % n for n in ("512", "256", "128", "64", "32", "16", "8", "4", "1,2")) + r"|\s{1}"
DEEPSEEK_V3_WORDS = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*""" + TAIL)
AFMOE_ASIAN = (r"[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-\u0e7f\u0e80-\u0eff\u1780-\u17ff"
               r"\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+")

SPARK = [r"\p{N}{1,3}", r"[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
         r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+""", r"\p{N}"]

PATTERNS = {
    "spark2_5": SPARK,
    "afmoe": [r"\d{1,3}(?=(?:\d{3})*(?!\d))", AFMOE_ASIAN, DEEPSEEK_V3_WORDS],
    "chameleon": [r"<sentinel:[0-9]+>", r"(?:IMGIMG)(?:A|B|C|D|E|F|G|H|I){1,4}Z", r"[\t\n]|    |  ", r"\p{N}", r"[\p{P}!-/:-@\[-`{-~]", GPT2],
    "exaone-moe": [CONTRACTION + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"],
    "jais-2": [LLAMA3_HEAD + JAIS_RUNS],
    "kimi-k2": [kimi()],
    "superbpe": [r"\p{N}+", r"\d{1,3}(?=(?:\d{3})*(?!\d))"],
    "tiny_aya": [r"\d{1,3}(?=(?:\d{3})*\b)", cased(r"\p{N}{1,3}")],
    "youtu": [r"[\uac00-\ud7a3\u3131-\u318e]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", cased(r"\p{N}")],
}

TEXTS = [
    "Hello, world! It's 1234567 o'clock; we'LL see.", "1 12 123 1234 12345 123456 1234567 12345678", "a1234567 1234567b 1234_567 12.34567, ½ ²³⁴ ٣٤٥٦",
    "  two  spaces\n\n  and\tlines \r\n\r\n end   ", "camelCaseWORDSAndHTMLParser don't DON'T", "漢字かなカナ混じり文 and 한국어 텍스트 ㄅㄆㄇ 中文123混合abc",
    "ภาษาไทย ລາວ ខ្មែរ မြန်မာ ａｂｃ", "e\u0301tude nai\u0308ve हिन्दी देवनागरी", "a b c d e f", "x = {'k': [1, 2]}; // note\n/* y */", "…“quote”—、。！",
    "<sentinel:12> IMGIMGABCDZ IMGIMGZ", "🙂🙂 🏳️‍🌈!!", " " * 37 + "x", "\n" * 5 + "y" + " " * 600, "'s 'S 're'RE", "no-break\u00a0space\u2003em\u3000wide",
    "Ünïcödé ǅ ʰ ªº", "", "9" * 40,
]


def cut(patterns, text):
    pieces = [text] if text else []
    for pattern in patterns:
        compiled = regex.compile(pattern, regex.V1)
        out = []
        for piece in pieces:
            at = 0
            for match in compiled.finditer(piece):
                if match.start() > at:
                    out.append(piece[at:match.start()])
                if match.end() > match.start():
                    out.append(match.group())
                at = match.end()
            if at < len(piece):
                out.append(piece[at:])
        pieces = out
    return pieces


def main():
    cases = {name: [{"text": text, "words": cut(patterns, text)} for text in TEXTS] for name, patterns in PATTERNS.items()}
    out = Path(__file__).resolve().parent.parent.parent / "tests" / "text" / "pretokenizer_cases.json"
    out.write_text(json.dumps(cases, ensure_ascii=True, indent=0) + "\n", encoding="utf-8")
    print("%s: %d names, %d texts each" % (out, len(cases), len(TEXTS)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

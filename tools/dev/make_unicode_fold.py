#!/usr/bin/env python3
"""Write the tables of src/text/unicode_fold.cpp from Python's unicodedata (Unicode 14 in the committed file), between its markers.

    tools/dev/make_unicode_fold.py
"""
import sys
import textwrap
import unicodedata
from pathlib import Path

HANGUL = range(0xAC00, 0xD7A4)  # decomposed by rule


def code_points():
    return (c for c in range(0x110000) if not 0xD800 <= c < 0xE000)


def bases():
    """[first, count, base]: runs of code points whose canonical decomposition begins with the same character."""
    runs = []
    for c in code_points():
        base = ord(unicodedata.normalize("NFD", chr(c))[0])
        if base == c or c in HANGUL:
            continue
        if runs and runs[-1][0] + runs[-1][1] == c and runs[-1][2] == base:
            runs[-1][1] += 1
        else:
            runs.append([c, 1, base])
    return runs


def lower_runs():
    """[first, last, step, offset]: runs, in steps of 1 or 2, whose lower case (its first character) lies `offset` away."""
    lower = {c: ord(chr(c).lower()[0]) for c in code_points() if chr(c).lower() != chr(c)}
    runs, todo = [], sorted(lower)
    while todo:
        first, best = todo[0], (0, 1)
        for step in (1, 2):
            n = 0
            while lower.get(first + (n + 1) * step, -1) - (first + (n + 1) * step) == lower[first] - first:
                n += 1
            best = max(best, (n, step), key=lambda found: found[0])
        n, step = best
        taken = {first + i * step for i in range(n + 1)}
        runs.append([first, first + n * step, step, lower[first] - first])
        todo = [c for c in todo if c not in taken]
    return runs


def rows(table, layout):
    text = " ".join(layout % tuple(row) for row in table)
    return "\n".join(textwrap.wrap(text, 118, initial_indent="    ", subsequent_indent="    ", break_long_words=False))


def main():
    path = Path(__file__).resolve().parent.parent.parent / "src" / "text" / "unicode_fold.cpp"
    text = path.read_text()
    for name, table, layout in (("kBases", bases(), "{0x%X,%d,0x%X},"), ("kLower", lower_runs(), "{0x%X,0x%X,%d,%d},")):
        begin = text.index(" %s[] = {\n" % name) + len(" %s[] = {\n" % name)
        text = text[:begin] + rows(table, layout) + "\n" + text[text.index("};", begin):]
        print("%s: %d rows" % (name, len(table)))
    path.write_text(text)


if __name__ == "__main__":
    sys.exit(main())

"""template_seeds.py DIR: the reference templates and the small ones of tests/text/jinja_cases.json, a seed file each."""
import json
import sys
import tarfile
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
out = Path(sys.argv[1])
out.mkdir(parents=True, exist_ok=True)
with tarfile.open(TESTS / "golden/templates.tar.xz") as archive:
    for member in archive:
        if member.name.endswith(".json"):
            case = json.load(archive.extractfile(member))
            if "template" in case:
                (out / Path(member.name).stem).write_text(case["template"] + "\0Hello <|im_end|>", encoding="utf-8")
for i, case in enumerate(json.loads((TESTS / "text/jinja_cases.json").read_text(encoding="utf-8"))["cases"]):
    (out / ("case-%03d" % i)).write_text(case["template"] + "\0é<b>", encoding="utf-8")

"""The node cases that fail, and why: reads the table `onnx_exceptions.json`, and writes it when run as a script."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from onnx_cases import cases, failure

FILE = Path(__file__).with_suffix(".json")

REASONS = {
    "element type": "Its tensors are of an element type that tensors don't have: bfloat16, floats of 8 and 4 bits, "
    "integers of 4 and 2 bits, strings.",
    "64 bits": "Its integers don't fit 32 bits, or it looks at the bits of 64.",
    "shape of values": "The shape of its result depends on values that are known only when the program runs.",
    "random": "It draws from a runtime's own random numbers, which nobody can reproduce.",
    "images and text": "It decodes image files, or counts words.",
    "classical": "It is one of ONNX-ML's classical models.",
    "branches": "Which branch is taken is known only at run time, and the branches give sequences or optionals.",
    "no op": "The op is not in the table.",
    "noise": "Expected are the rounding errors of another algorithm; the results here are closer to the exact ones.",
}
"""What the file's reasons mean."""

RULES = (
    (r"no tensors of STRING|RegexFullMatch|StringNormalizer|TfIdfVectorizer|ImageDecoder", "images and text"),
    (r"TreeEnsemble|LabelEncoder", "classical"),
    (r"no op (Unique|NonMaxSuppression)", "shape of values"),
    (r"RandomUniformLike|random numbers", "random"),
    (r"no tensors of|'(to|dtype|output_dtype)' is|attribute 'precision' is", "element type"),
    (r"If: takes a tensor|ONNX node If", "branches"),
    (r"integers from .* do not fit|reads the bits of 64", "64 bits"),
    (r"there is no op", "no op"),
)
"""The first pattern that an error's message has decides its reason; what has none is for a person to look at."""

JUDGED = {
    "test_dft_inverse": "noise",
    "test_dft_inverse_opset19": "noise",
}
"""Differences in value, each of which has been examined."""


def load() -> dict[str, dict[str, str]]:
    """The file: for `reference` and `device`, the reason by the name of each case that fails there.

    What fails on the reference is not listed again for the device.
    """
    return json.loads(FILE.read_text(encoding="utf-8"))


def reason(name: str, error: Exception) -> str | None:
    """Returns why a case fails; None if no reason is given."""
    if isinstance(error, AssertionError):
        return JUDGED.get(name)
    return next((known_reason for pattern, known_reason in RULES if re.search(pattern, str(error))), None)


def main() -> int:
    """Runs every case and writes the file; returns 1 if a failure has no reason."""
    import warnings

    from tensorgrad.runtime.webgpu import WebGPUDevice

    warnings.simplefilter("ignore")
    device = WebGPUDevice()
    reasons: dict[str, dict[str, str]] = {"reference": {}, "device": {}}
    unknown: list[str] = []
    for name, case in cases().items():
        for place, where in (("reference", None), ("device", device)):
            error = failure(case, where)
            if error is None:
                continue
            why = reason(name, error)
            if why is None:
                unknown.append(f"{name} ({place}): {type(error).__name__}: {error}")
            else:
                reasons[place][name] = why
            break
    FILE.write_text(json.dumps(reasons, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    counts: dict[str, Any] = {place: len(names) for place, names in reasons.items()}
    print(f"{len(cases())} cases, failing: {counts}")
    print("\n".join(unknown))
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())

"""The cases of the op table that ONNX Runtime or ONNX's evaluator computes differently, and why; each is exact."""

from __future__ import annotations

ZERO = "its Where adds what it takes from both sides, so that -0 becomes 0"
F64 = "it lacks the function in f64"
GATHER = "its GatherElements takes at most 64 rows"
LEAST = "its MaxPool starts at the least finite number, so that windows of -inf are not -inf"
PADS = "its MaxPool mixes up the padding of axes with more of it on one side"
GROUPS = "its ConvTranspose ignores groups"

RUNTIME = {
    "bitcast-copysign_special": ZERO,
    "windows-max_pool_NaN": LEAST,
    **{f"{name}-f64": F64 for name in ("tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh")},
}
"""What ONNX Runtime 1.32 doesn't compute; the evaluator does."""

EVALUATOR = {
    "conv-transposed": GROUPS,
    "windows-max_pool_one_sided": PADS,
    **dict.fromkeys(
        (
            "argsort-long_rising",
            "argsort-long_falling",
            "argsort-sort_long",
            "take_along_axis-cummax_of_blocks",
            "take_along_axis-cummax_of_blocks_of_blocks",
            "take_along_axis-cummin_of_blocks",
            "take_along_axis-cummin_of_blocks_of_blocks",
            "take_along_axis-scatter_many",
        ),
        GATHER,
    ),
}
"""What ONNX's own evaluator doesn't compute; ONNX Runtime does."""

EVALUATOR_GRADIENTS = {"conv-depthwise,_holes": GROUPS}
"""The cases of which it doesn't compute the gradient either."""

"""`precision=`: how values between kernels are stored, and what products multiply."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from tensorgrad.errors import OptionError
from tensorgrad.passes.buffers.lower_precision import LowerPrecisionPass
from tensorgrad.passes.levels import LevelPass
from tensorgrad.passes.pipelines import precision_pass
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tracer import refusing_derivatives

if TYPE_CHECKING:
    from tensorgrad.driver.device import ProgramDevice

Precision: TypeAlias = Literal["f32", "f16", "bf16", "bf16-products"]
"""The values of `precision=`."""

PRECISIONS = get_args(Precision)


def checked_precision(what: str, precision: str, loss_scale: float | None = None) -> LevelPass | None:
    """Returns the pass that implements a precision; `None` if everything is f32.

    Raises:
        OptionError: There is no such precision, the scale is not a power of two, or it is given without f16.
    """
    where = f"{user_line()}: {what}"
    if precision not in PRECISIONS:
        raise OptionError(f"{where}: precision must be one of {', '.join(PRECISIONS)}, not {precision!r}")
    if loss_scale is None:
        return precision_pass(precision)
    if precision != "f16":
        raise OptionError(f'{where}: loss_scale is for precision="f16"; with {precision} nothing underflows')
    number = isinstance(loss_scale, int | float) and not isinstance(loss_scale, bool)
    if not number or not 2.0**-14 <= loss_scale <= 2.0**31 or math.frexp(loss_scale)[0] != 0.5:
        raise OptionError(f"{where}: loss_scale must be a power of two, such as 1024, got {loss_scale!r}")
    return precision_pass(precision, float(loss_scale))


def check_device(what: str, precision: LevelPass | None, device: ProgramDevice | None) -> None:
    """Checks that a device, or numpy, can store values at the requested precision.

    Raises:
        OptionError: It can't; names it.
    """
    if not isinstance(precision, LowerPrecisionPass) or device is None or device.target.native:
        return
    if precision.element == "bf16":
        raise OptionError(
            f'{what}: precision="bf16" stores 16 bits at a time, which shaders can\'t; take "f16", or device="cpu"'
        )
    if not device.target.f16:
        raise OptionError(
            f'{what}: precision="f16" needs a device with the feature shader-f16, which '
            f'{device.info.name} ({device.info.backend}) lacks; leave precision out, or take device="cpu"'
        )


def while_tracing(what: str, precision: LevelPass | None) -> AbstractContextManager[None]:
    """Rejects derivatives inside a trace if values are stored in f16.

    Their cotangents would be stored like other values, and silently underflow.
    """
    if not isinstance(precision, LowerPrecisionPass) or precision.element != "f16":
        return nullcontext()
    return refusing_derivatives(
        f'{what}: a derivative inside of what is stored with precision="f16", where its cotangents would underflow; '
        "leave precision out, or let tg.compile take the derivative"
    )

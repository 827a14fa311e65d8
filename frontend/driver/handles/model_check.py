"""Whether a model is still as it was compiled."""

from __future__ import annotations

from tensorgrad.errors import FrozenWarning
from tensorgrad.nn.module import Module, declarations
from tensorgrad.nn.unchanged import check_same
from tensorgrad.nn.watch import Watch
from tensorgrad.runtime.errors import warn_user
from tensorgrad.tracing.location import user_line

ADVICE = "; replace_model() compiles the model as it is, and keeps what fits"


class ModelCheck:
    """Notices when a model's parameters, or which of them are frozen, change after it was compiled.

    Args:
        model: The declared model.
    """

    def __init__(self, model: Module):
        self._model = model
        self._declared, self._watch = declarations(model), Watch(model)
        self._parameters = {str(path): leaf for path, leaf in model.named_parameters().items()}
        self._trainable = self._trained_now()

    def __call__(self) -> None:
        """Checks that the model still has the parameters that it was compiled with.

        Raises:
            ParameterError: Its parameters have changed.

        Warns:
            FrozenWarning: Its frozen parameters have changed, for the first time since then.
        """
        if not self._watch.is_unchanged():
            where = f"{user_line()}: the model's parameters changed since tg.compile"
            check_same(self._declared, declarations(self._model), f"{where}{ADVICE}")
            self._watch.renew()
        trainable = self._trained_now()
        if trainable != self._trainable:
            before, self._trainable = self._trainable, trainable
            flags = zip(self._parameters, before, trainable, strict=True)
            changed = ", ".join(path for path, was, is_now in flags if was is not is_now)
            warn_user(
                f"{user_line()}: whether {changed} is frozen is as it was at tg.compile{ADVICE}",
                FrozenWarning,
            )

    def _trained_now(self) -> list[bool]:
        """Returns whether the model says that each parameter is trained, in order."""
        return [parameter.trainable for parameter in self._parameters.values()]

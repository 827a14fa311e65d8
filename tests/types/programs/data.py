"""Batches of arrays and of functions, prepared ahead."""

from collections.abc import Iterator

import numpy as np

import tensorgrad as tg

arrays = {"x": np.arange(10, dtype=np.float32), "y": np.arange(10)}
batches = tg.data.batches(arrays, 4, shuffle=0, last="keep")
assert len(batches) == 3
for batch in batches:
    print(batch["x"].shape, batch["y"].sum())


def noise(number: int) -> dict[str, np.ndarray]:
    """A batch by its number."""
    return {"x": np.full((2, 3), number, np.float32)}


def forever() -> Iterator[dict[str, np.ndarray]]:
    """Batches without end."""
    number = 0
    while True:
        yield noise(number)
        number += 1


assert next(iter(tg.data.generated(noise, length=5)))["x"].shape == (2, 3)
ahead = tg.data.prefetch(forever(), 2)
print(next(ahead)["x"].mean())
ahead.close()

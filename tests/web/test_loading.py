"""Loading in a page tells its progress, and can be canceled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tensorgrad as tg

pytestmark = pytest.mark.web


@pytest.fixture
def size(site: tuple[Path, str]) -> int:
    """Writes a training and a function of it; returns the size of the first file."""
    training = tg.compile(
        tg.nn.Linear(300, 300),
        loss=lambda model, x: tg.mean(model(x) ** 2),
        optimizer=tg.optim.sgd(0.1),
        inputs={"x": (1, 300)},
        device="numpy",
    )
    training.save(site[0] / "training.tg", target="webgpu-default")
    training.attach(lambda model, x: model(x), inputs={"x": (1, 300)}).save(
        site[0] / "predict.tg", target="webgpu-default"
    )
    return (site[0] / "training.tg").stat().st_size


def test_progress_is_told_by_file(evaluate: Callable[..., Any], size: int) -> None:
    said = evaluate(
        "const said = []; const onProgress = (one) => said.push(one);"
        "const training = await T.Training.load('training.tg?version=2#here', {onProgress});"
        "await training.attach('predict.tg', {onProgress}); await training.restore('training.tg', {onProgress});"
        "training.destroy(); return said;"
    )
    files = list(dict.fromkeys(one["file"] for one in said))
    assert files == ["training.tg", "predict.tg"]
    first = [one for one in said if one["file"] == "training.tg"]
    assert [one["loaded"] for one in first if one["loaded"] in (0, size)] == [0, size, 0, size]
    assert {one["total"] for one in first} == {size}
    assert said[-1] == {"file": "training.tg", "loaded": size, "total": size}


def test_progress_is_told_by_part(evaluate: Callable[..., Any], size: int) -> None:
    # A stream of our own: into how many parts a server's response falls is up to the network.
    said = evaluate(
        "const file = new Uint8Array(await (await fetch('training.tg')).arrayBuffer()); const said = [];"
        "const start = (stream) => {"
        " for (let at = 0; at < file.length; at += given) stream.enqueue(file.slice(at, at + given));"
        " stream.close(); };"
        "const response = new Response(new ReadableStream({start}), {headers: {'content-length': file.length}});"
        "await T.readArrays(response, {onProgress: ({loaded}) => said.push(loaded)}); return said;",
        100_000,
    )
    assert said == [*range(0, size, 100_000), size]


def test_the_size_of_what_is_compressed_is_unknown(evaluate: Callable[..., Any], size: int) -> None:
    said = evaluate(
        "const body = await (await fetch('training.tg')).arrayBuffer(); const said = [];"
        "const headers = {'content-encoding': 'br', 'content-length': '10'};"
        "await T.readArrays(new Response(body, {headers}), {onProgress: (one) => said.push(one)}); return said;"
    )
    assert said[-1] == {"file": "the file", "loaded": size, "total": None}


MOMENTS = {"before": "true", "after the first part": "loaded > 0", "before kernels compile": "loaded === total"}


@pytest.mark.parametrize("moment", MOMENTS)
def test_loading_is_canceled(evaluate: Callable[..., Any], size: int, moment: str) -> None:
    said = evaluate(
        "const canceling = new AbortController(); const { signal } = canceling;"
        f"const onProgress = ({{loaded, total}}) => {{ if ({MOMENTS[moment]}) canceling.abort(); }};"
        "const failed = ({name, message}) => `${name}: ${message}`; const device = await T.Device.request();"
        "if (given) canceling.abort();"
        "const first = await T.Training.load('training.tg', {signal, onProgress, device}).then(String, failed);"
        "const training = await T.Training.load('training.tg', device);"
        "const second = await training.attach('predict.tg', {signal}).then(String, failed);"
        "const loss = await training.step({x: new Float32Array(300)}).item(); device.check();"
        "return [first, second, Number.isFinite(loss)];",
        moment == "before",
    )
    assert said[2] and all(one.startswith("AbortError: ") for one in said[:2])

"""What the project writes: a small file of each format, and what reading it gives.

All numbers are small integers or halves of them, which every device adds and multiplies without rounding: results don't
depend on the machine. Readers keep to what users call, so that a file of any version that is kept here is read as
theirs.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors.numpy import load_file, save_file

import tensorgrad as tg
from tensorgrad.dialects.schedule import ContractionSchedule, Schedule, ThreadSchedule, fields_of, schedule_of
from tensorgrad.driver.storage import checkpoints
from tensorgrad.exporters.onnx.graph import OPSET
from tensorgrad.passes.buffers.schedule.tuned import FORMAT as SCHEDULES
from tensorgrad.passes.buffers.schedule.tuned import Search, read_file, write_table
from tensorgrad.runtime.program import FORMAT_VERSION as PROGRAM

Values = Mapping[str, Any]
"""Arrays, or what they are made of, by name."""

BASELINE = "cpu"
"""The profile of native code that every CPU of an architecture runs."""
PORTABLE = "webgpu-default"
STEPS = 4


class Net(tg.nn.Module):
    """A linear layer and relu."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = tg.nn.Linear(3, 2)

    def __call__(self, x: Any) -> Any:
        return tg.relu(self.linear(x))


def whole(*shape: int, step: int = 1) -> np.ndarray:
    """Returns small integers: from -3 to 3, in turns."""
    return (np.arange(0, step * np.prod(shape, dtype=int), step) % 7 - 3).reshape(shape).astype(np.float32)


def loss(model: Any, x: Any, y: Any) -> Any:
    """Its derivatives don't depend on parameters, whose digits become few more with each step."""
    return tg.sum(model(x) * y) / 64


def keyed_loss(model: Any, x: Any, y: Any, key: Any) -> Any:
    return loss(model, tg.random.dropout(key, x, 0.5), y)


def predict(model: Any, x: Any) -> Any:
    return model(x)


X, Y = whole(4, 3), whole(4, 2, step=3)


def training(device: Any, of: Any = keyed_loss) -> tg.Training:
    optimizer = tg.optim.sgd(0.0625, momentum=0.5)
    inputs = {"x": X.shape, "y": Y.shape}
    made = tg.compile(Net(), loss=of, optimizer=optimizer, inputs=inputs, device=device, seed=3)
    made.load_parameters({path: whole(*value.shape, step=2) for path, value in made.parameters().items()})
    return made


def stepped(subject: Any, steps: int = 2) -> Values:
    """Returns the losses of steps."""
    return {f"loss {number}": np.asarray(subject.step(x=X, y=Y)) for number in range(steps)}


@dataclass(frozen=True)
class Format:
    """A format of files.

    Attributes:
        version: The version that is written now.
        write: Writes files of it into a folder.
        read: Returns what reading them on a device gives.
        devices: The devices on which that may differ.
    """

    version: int
    write: Callable[[Path], object]
    read: Callable[[Path, Any], Values]
    devices: Sequence[str] = ("numpy", "cpu", "wgpu")


KEYED = "keyed: "
"""What the names of values begin with that only portable programs give: native ones with keys are large."""


def write_programs(folder: Path) -> None:
    keyed, subject = training("numpy"), training("numpy", loss)
    stepped(keyed)
    stepped(subject)
    keyed.save(folder / "keyed.portable.tgp", target=PORTABLE)
    function = subject.attach(predict, inputs={"x": X.shape})
    for name, target in (("native", BASELINE), ("portable", PORTABLE)):
        subject.save(folder / f"step.{name}.tgp", target=target)
        function.save(folder / f"predict.{name}.tgp", target=target)


def read_programs(folder: Path, device: Any) -> Values:
    """Runs them; numpy, which runs no programs, goes on from the trainings in them."""
    keyed: Any = None
    if device == "numpy":
        keyed, step = training(device), training(device, loss)
        keyed.load_checkpoint(folder / "keyed.portable.tgp")
        step.load_checkpoint(folder / "step.portable.tgp")
        call: Any = step.attach(predict, inputs={"x": X.shape})
    else:
        name = "native" if device == "cpu" else "portable"
        step, call = (tg.load(folder / f"{what}.{name}.tgp", device=device) for what in ("step", "predict"))
        keyed = tg.load(folder / "keyed.portable.tgp", device=device) if name == "portable" else None
    result = {"prediction": np.asarray(call(x=X)), **stepped(step), **step.parameters()}
    if keyed is not None:
        result |= {f"{KEYED}{name}": value for name, value in {**stepped(keyed), **keyed.parameters()}.items()}
    return result


def write_checkpoint(folder: Path) -> None:
    subject = training("numpy")
    stepped(subject)
    subject.save_checkpoint(folder / "step.safetensors")


def read_checkpoint(folder: Path, device: Any) -> Values:
    subject = training(device)
    subject.load_checkpoint(folder / "step.safetensors")
    return {**stepped(subject), **subject.state_dict()}


def fitted(subject: tg.Training, folder: Path, steps: int) -> Any:
    data = tg.data.batches({"x": whole(12, 3), "y": whole(12, 2, step=3)}, 4, shuffle=1)
    return tg.fit(
        subject, data, steps=steps, resume=True, progress=False, log=folder / "log.csv",
        evaluate=lambda subject: {"steps": subject.step_count}, evaluate_every=1,
        callbacks=[tg.callbacks.EarlyStop("steps", patience=9)],
        checkpoint=tg.callbacks.Checkpoints(folder, every=2, keep=1, best="steps", mode="max"),
    )  # fmt: skip


def write_run(folder: Path) -> None:
    fitted(training("numpy"), folder, 2)


def read_run(folder: Path, device: Any) -> Values:
    subject = training(device)
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(folder, copy, dirs_exist_ok=True)
        report = fitted(subject, Path(copy), STEPS)
        log = Path(copy, "log.csv").read_bytes()
    return {"losses": report.losses, "log": np.frombuffer(log, np.uint8), **subject.parameters()}


def streams() -> dict[str, Any]:
    return {
        "batches": tg.data.batches({"x": whole(12, 3)}, 4, shuffle=1),
        "generated": tg.data.generated(lambda number: {"x": np.array([number])}, 3),
    }


def write_positions(folder: Path) -> None:
    for name, stream in streams().items():
        given = iter(stream)
        next(given)
        next(given)
        (folder / f"{name}.json").write_text(json.dumps(stream.state_dict()) + "\n", encoding="utf-8")


def read_positions(folder: Path, _: Any) -> Values:
    result: dict[str, np.ndarray] = {}
    for name, stream in streams().items():
        stream.load_state_dict(json.loads((folder / f"{name}.json").read_text(encoding="utf-8")))
        result[name] = np.asarray(next(iter(stream))["x"])
    return result


def write_state_dict(folder: Path) -> None:
    save_file(training("numpy").state_dict(parts="model"), folder / "model.safetensors")


def read_state_dict(folder: Path, device: Any) -> Values:
    subject = training(device)
    subject.load_state_dict({path: np.zeros_like(value) for path, value in subject.parameters().items()}, strict=False)
    subject.load_state_dict(load_file(folder / "model.safetensors"), parts="model")
    return {**subject.parameters(), **stepped(subject)}


def write_adapter(folder: Path) -> None:
    model = Net()
    tg.nn.lora(model, rank=2, alpha=2)
    values = {str(path): whole(*leaf.shape) for path, leaf in model.named_parameters().items()}
    tg.nn.save_lora(model, folder, {path: value for path, value in values.items() if "adapters" in path})


def read_adapter(folder: Path, device: Any) -> Values:
    model = Net()
    tg.nn.load_lora(model, folder)
    inputs = {"x": X.shape, "y": Y.shape}
    subject = tg.compile(model, loss=loss, optimizer=tg.optim.sgd(0.5), inputs=inputs, device=device)
    base = {path: whole(*value.shape) for path, value in subject.parameters().items() if "adapters" not in path}
    subject.load_state_dict(base, strict=False)
    function = subject.attach(predict, inputs={"x": X.shape})
    return {"prediction": np.asarray(function(x=X)), **subject.parameters()}


def language_model() -> Any:
    options = tg.models.LlamaOptions(
        vocab_size=8, hidden_size=4, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2
    )
    return tg.models.LlamaForCausalLM(options)


def language_values(model: Any) -> dict[str, np.ndarray]:
    return {str(path): whole(*leaf.shape, step=2) for path, leaf in model.named_parameters().items()}


def write_folder(folder: Path) -> None:
    model = language_model()
    tg.models.save_pretrained(model, folder, values=language_values(model))


def read_folder(folder: Path, _: Any) -> Values:
    model = tg.models.from_pretrained(folder).initialized(0)
    return {str(path): np.asarray(leaf) for path, leaf in model.named_parameters().items()}


def write_gguf(folder: Path) -> None:
    model = language_model()
    for dtype in ("f32", "f16"):
        tg.models.save_gguf(model, folder / f"{dtype}.gguf", dtype=dtype, values=language_values(model))


def read_gguf(folder: Path, _: Any) -> Values:
    """Reads them by the package of llama.cpp: here nothing does."""
    result: dict[str, np.ndarray] = {}
    for dtype in ("f32", "f16"):
        reader = gguf.GGUFReader(folder / f"{dtype}.gguf")
        result |= {f"{dtype} {tensor.name}": np.array(tensor.data) for tensor in reader.tensors}
    return result


def write_onnx(folder: Path) -> None:
    subject = training("numpy", loss)
    tg.onnx.save(subject.attach(predict, inputs={"x": X.shape}), folder / "predict.onnx")
    tg.onnx.save(subject, folder / "step.onnx")


def read_onnx(folder: Path, device: Any) -> Values:
    """Runs the function; the step is run by ONNX's own evaluator, once."""
    import onnx.reference

    subject = tg.compile(tg.onnx.load(folder / "predict.onnx"), device=device)
    prediction = subject.attach(predict, inputs={"x": X.shape})(x=X)
    evaluator = onnx.reference.ReferenceEvaluator(str(folder / "step.onnx"))
    results = evaluator.run(None, {"x": X, "y": Y})
    return {"prediction": np.asarray(prediction), **dict(zip(map(str, evaluator.output_names), results, strict=True))}


def schedules() -> dict[str, Schedule]:
    thread = {"workgroup": [64, 1, 1], "groups": [2, 1, 1], "width": 4}
    tile = {"row": [0], "column": [1], "rows": 2, "columns": 2, "lanes": 8, "depth": 8, "chunk": 4}
    return {
        "thread": schedule_of(ThreadSchedule.archetype, thread),
        "contraction": schedule_of(ContractionSchedule.archetype, {"groups": [1, 1, 1], **tile}),
    }


def write_schedules(folder: Path) -> None:
    table = schedules()
    write_table(folder / "table.json", table, {"search": Search(0.5, table["thread"], {*table.values()})})


def read_schedules(folder: Path, _: Any) -> Values:
    """Reads a table; one of another version is ignored, as the kernels that it is about are others."""
    table, searches = read_file(folder / "table.json")
    if folder.name != str(SCHEDULES):
        assert (table, searches) == ({}, {})
        table, searches = schedules(), {"search": Search(0.5, schedules()["thread"], {*schedules().values()})}
    written = {name: json.dumps([schedule.archetype, fields_of(schedule)]) for name, schedule in table.items()}
    search = searches["search"]
    written["search"] = f"{search.seconds} {search.best.archetype} {len(search.tried)}"
    return {name: np.frombuffer(text.encode(), np.uint8) for name, text in written.items()}


ANY = ("any",)
"""For what no device computes."""

FORMATS: Mapping[str, Format] = {
    "program": Format(PROGRAM, write_programs, read_programs),
    "checkpoint": Format(checkpoints.FORMAT_VERSION, write_checkpoint, read_checkpoint),
    "run": Format(checkpoints.FORMAT_VERSION, write_run, read_run),
    "position": Format(1, write_positions, read_positions, ANY),
    "state_dict": Format(1, write_state_dict, read_state_dict),
    "adapter": Format(1, write_adapter, read_adapter),
    "folder": Format(1, write_folder, read_folder, ANY),
    "gguf": Format(gguf.GGUF_VERSION, write_gguf, read_gguf, ANY),
    "onnx": Format(OPSET, write_onnx, read_onnx),
    "schedules": Format(SCHEDULES, write_schedules, read_schedules, ANY),
}
"""Those without a version of their own have version 1: their names and keys are those of another project, or are
checked on reading."""

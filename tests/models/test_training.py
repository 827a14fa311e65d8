"""Models of folders that are trained, on the native CPU and on the adapter, and written back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from written_folders import FOLDERS, bert, images, llama, tokens

import tensorgrad as tg


def next_token_loss(model: Any, tokens: Any) -> Any:
    logits = tg.nn.inference(model)(tokens)
    return tg.cross_entropy(logits[:, :-1], tokens[:, 1:])


def compiled(model: Any, device: tg.DeviceName) -> tg.Training:
    return tg.compile(
        model,
        loss=next_token_loss,
        optimizer=tg.optim.adamw(1e-2),
        inputs={"tokens": tg.spec((2, 7), "i32")},
        device=device,
    )


@pytest.mark.usefixtures("kept_programs")
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "device"),
    [("llama", "cpu"), ("llama", "wgpu"), ("gpt2", "cpu")],
)
def test_a_language_model_learns_a_text(name: str, device: tg.DeviceName, tmp_path: Path) -> None:
    model = tg.models.from_pretrained(FOLDERS[name]().write(tmp_path / "read"))
    training = compiled(model, device)
    losses = [float(training.step(tokens=tokens())) for _ in range(20)]
    assert losses[-1] < 0.3 * losses[0]
    tg.models.save_pretrained(model, tmp_path / "trained", training.parameters())
    again = compiled(tg.models.from_pretrained(tmp_path / "trained"), device)
    assert float(again.step(tokens=tokens())) == pytest.approx(float(training.step(tokens=tokens())), rel=1e-6)
    tg.models.save_pretrained(training.model(), tmp_path / "trained")


def test_a_model_for_another_task_has_a_new_head(tmp_path: Path) -> None:
    place = bert().write(tmp_path / "read")
    model = tg.models.from_pretrained(place, architecture="BertForSequenceClassification", num_labels=3)
    labels, mask = np.array([2, 0], np.int32), np.ones((2, 7), np.int32)
    mask[1, 4:] = 0

    def loss(model: Any, tokens: Any, mask: Any, labels: Any, key: Any) -> Any:
        return tg.cross_entropy(model(tokens, mask, key=key), labels)

    training = tg.compile(
        model,
        loss=loss,
        optimizer=tg.optim.adamw(1e-2),
        inputs={"tokens": tg.spec((2, 7), "i32"), "mask": tg.spec((2, 7), "i32"), "labels": tg.spec(2, "i32")},
        device="numpy",
    )
    losses = [float(training.step(tokens=tokens(), mask=mask, labels=labels)) for _ in range(15)]
    assert losses[-1] < 0.5 * losses[0]
    tg.models.save_pretrained(model, tmp_path / "trained", training.state_dict())
    again = tg.models.from_pretrained(tmp_path / "trained")
    assert isinstance(again, tg.models.BertForSequenceClassification) and again.options.num_labels == 3
    assert again.options.written()["label2id"] == {"LABEL_0": 0, "LABEL_1": 1, "LABEL_2": 2}
    assert np.asarray(tg.nn.inference(again.initialized())(tokens(), mask)).argmax(-1).tolist() == labels.tolist()


def test_an_image_classifier_with_other_classes(tmp_path: Path) -> None:
    place = FOLDERS["vit"]().write(tmp_path)
    read, fresh = (tg.models.from_pretrained(place, num_labels=count).initialized(1).state_dict() for count in (3, 10))
    assert fresh.keys() == read.keys()
    assert {path for path in read if not np.array_equal(read[path], fresh[path])} == {
        "classifier.weight",
        "classifier.bias",
    }
    model = tg.models.from_pretrained(place, num_labels=10).initialized(1)
    assert model(images()).shape == (2, 10)


def test_bfloat16_files_are_trained_in_f32(tmp_path: Path) -> None:
    folder = llama()
    rounded = {name: tensor.bfloat16() for name, tensor in folder.weights.items()}
    place = type(folder)(folder.config, rounded, folder.expected).write(tmp_path, torch_dtype="bfloat16")
    model = tg.models.from_pretrained(place)
    values = model.initialized().state_dict()
    np.testing.assert_array_equal(values["lm_head.weight"], rounded["lm_head.weight"].float().numpy().T)
    assert model.options.others["torch_dtype"] == "bfloat16"

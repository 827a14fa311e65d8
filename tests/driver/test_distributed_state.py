"""The state of a training in a group: read as whole values, written by the first process, for any group size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from distributed_models import batch, compiled, in_group, same

import tensorgrad as tg
from tensorgrad.errors import InputError, OptionError
from tensorgrad.runtime.files import write_safetensors

pytestmark = pytest.mark.usefixtures("kept_programs")

DEVICES = ["numpy", "cpu"]
STEPS = 4


def trained(group: Any, steps: int = STEPS, **options: Any) -> Any:
    training = compiled(group, **options)
    for number in range(steps):
        training.step(**batch(number))
    return training


def losses(training: Any, numbers: Any) -> list[np.ndarray]:
    values = []
    for number in numbers:
        value, _ = training.step(**batch(number))
        values.append(np.asarray(value))
    return values


@pytest.mark.nightly
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shard", [None, "optimizer"])
def test_a_checkpoint_of_four_is_the_state_of_any_number(device, shard, tmp_path):
    file = tmp_path / "c.safetensors"

    def write(group):
        training = trained(group, device=device, shard=shard)
        training.save_checkpoint(file)
        assert file.exists()
        return training.state_dict(), losses(training, range(STEPS, STEPS + 3))

    written = in_group(4, write)
    assert all(same(state, written[0][0]) for state, _ in written)
    alone = trained(None, device=device)
    state = written[0][0]
    assert {name: value.shape for name, value in state.items()} == {
        name: value.shape for name, value in alone.state_dict().items()
    }
    for name, value in alone.state_dict().items():
        np.testing.assert_allclose(state[name], value, rtol=2e-4, atol=2e-6, err_msg=name)

    def read(group):
        training = compiled(group, device=device, shard=shard, seed=11)
        assert training.load_checkpoint(file) == ((), ())
        return training.state_dict(), losses(training, range(STEPS, STEPS + 3))

    for size in (1, 2, 4):
        for read_state, following in in_group(size, read):
            assert same(read_state, state)
            if size == 4:
                assert [loss.tobytes() for loss in following] == [loss.tobytes() for loss in written[0][1]]
            np.testing.assert_allclose(following, written[0][1], rtol=1e-6)


def test_what_is_sharded_has_parts_in_each_process_and_is_whole_where_it_is_read():
    def run(group):
        training = trained(group, 1, shard="optimizer", optimizer=tg.optim.adafactor(1e-2, clip_norm=1.0))
        local = {name: slot.shape for name, slot in training._executable.persistent.items()}
        return local, training.state_dict()

    (local, state), _ = in_group(2, run)
    alone = trained(None, 1, optimizer=tg.optim.adafactor(1e-2, clip_norm=1.0)).state_dict()
    cut = [name for name, shape in local.items() if "/" in name and state[f"optimizer/{name}"].shape != shape]
    whole = [name for name, shape in local.items() if "/" in name and state[f"optimizer/{name}"].shape == shape]
    assert len(cut) > 4 and whole  # five outputs have no two equal parts
    for name, value in alone.items():
        np.testing.assert_allclose(state[name], value, rtol=2e-4, atol=2e-6, err_msg=name)


@pytest.mark.in_turns(6)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_step_goes_on_in_its_middle_with_any_number_of_processes(device, size, tmp_path):
    file, options = tmp_path / "c.safetensors", {"device": device, "accumulate": 3, "shard": "optimizer"}

    def write(group):
        training = trained(group, 4, **options)
        assert training.accumulated == 1
        training.save_checkpoint(file)
        return training.state_dict(), losses(training, range(4, 9)), training.parameters()

    (state, following, parameters), _ = in_group(2, write)

    def read(group):
        training = compiled(group, **options)
        training.load_checkpoint(file)
        assert (training.step_count, training.accumulated) == (1, 1)
        assert same(training.state_dict(), state)
        return losses(training, range(4, 9)), training.parameters()

    for losses_read, values in in_group(size, read):
        np.testing.assert_allclose(losses_read, following, rtol=1e-6)
        for path, value in parameters.items():
            np.testing.assert_allclose(values[path], value, rtol=1e-4, atol=1e-6)


@pytest.mark.nightly
def test_a_group_reads_what_a_process_on_its_own_wrote(tmp_path):
    file, program = tmp_path / "c.safetensors", tmp_path / "p.safetensors"
    training = trained(None)
    training.save_checkpoint(file)
    training.save(program)

    def read(group):
        reader = compiled(group, shard="optimizer")
        reader.load_checkpoint(file)
        first = reader.state_dict()
        reader.reset(5)
        reader.load_checkpoint(program)
        return first, reader.state_dict()

    for by_file, by_program in in_group(2, read):
        assert same(by_file, training.state_dict()) and same(by_program, training.state_dict())


def test_parts_of_the_state_are_read_without_the_others():
    def run(group):
        training = trained(group, 1, shard="optimizer")
        if group.rank:  # parameters and settings are in every process: this exchanges nothing
            return None
        return training.state_dict(parts=("model", "settings"))

    partial_state = in_group(2, run)[0]
    assert partial_state is not None and "last.weight" in partial_state


@pytest.mark.nightly
def test_a_training_is_replaced_by_one_of_fewer_processes():
    def run(group):
        training = trained(group, shard="optimizer")
        alone = training.replace_model(group=None)
        again = alone.replace_model(group=group)
        return training.state_dict(), alone.state_dict(), again.state_dict()

    for before, alone, again in in_group(2, run):
        assert same(before, alone) and same(before, again)


def test_what_the_first_process_cannot_write_all_raise(tmp_path):
    def run(group):
        training = trained(group, 1, shard="optimizer")
        with pytest.raises(OSError) as caught:
            training.save_checkpoint(tmp_path / "absent" / "c.safetensors")
        group.barrier()  # all ranks continue
        return type(caught.value), training.step(**batch(1))

    kinds = [kind for kind, _ in in_group(4, run)]
    assert kinds == [FileNotFoundError] * 4


def test_what_one_process_cannot_read_all_raise_and_nothing_is_loaded(tmp_path):
    file = tmp_path / "c.safetensors"
    trained(None).save_checkpoint(file)

    def run(group):
        training = trained(group, 1, shard="optimizer")
        before = training.state_dict()
        with pytest.raises(FileNotFoundError):
            training.load_checkpoint(file if group.rank else tmp_path / "elsewhere")
        assert same(training.state_dict(), before)
        return True

    assert all(in_group(2, run))


@pytest.mark.nightly
def test_a_state_of_another_shape_is_refused_everywhere(tmp_path):
    file = tmp_path / "c.safetensors"
    state = trained(None).state_dict()
    state["optimizer/adam.m/first.weight"] = state["optimizer/adam.m/first.weight"][:4]

    def run(group):
        training = compiled(group, shard="optimizer")
        with pytest.raises(
            InputError, match=r"optimizer/adam.m/first.weight is float32\[4, 8\], expected float32\[6, 8\]"
        ):
            training.load_state_dict(state)
        return True

    assert all(in_group(2, run))
    write_safetensors(file, {"x": np.zeros(3, np.float32)}, {})

    def load(group):
        with pytest.raises(InputError, match="is not a checkpoint of tensorgrad's"):
            compiled(group).load_checkpoint(file)
        return True

    assert all(in_group(2, load))


@pytest.mark.nightly
def test_programs_of_a_group_are_not_saved(tmp_path):
    def run(group):
        training = compiled(group)
        function = training.attach(lambda model, x: tg.nn.inference(model)(x), inputs={"x": (8, 6)})
        for what, act in (
            ("save", lambda: training.save(tmp_path / "p")),
            ("save", lambda: function.save(tmp_path / "f")),
            ("export_web", lambda: training.export_web(tmp_path / "w")),
        ):
            with pytest.raises(OptionError) as caught:
                act()
            assert str(caught.value).endswith(
                f"{what}: the program is for one of 2 processes, and of no use without the others; save from "
                "training.replace_model(group=None), which every process has to call"
            )
        alone = training.replace_model(group=None)
        if group.rank == 0:
            alone.save(tmp_path / "saved")
        return True

    assert all(in_group(2, run))
    assert list(tmp_path.iterdir()) == [tmp_path / "saved"]

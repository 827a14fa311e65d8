"""The mkdocs hook for the site's search: guides come before internals, and other libraries' words find our pages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BOOSTS = {
    "how-to/": 2.0,
    "reference/dialects/": 0.3,
    "reference/passes/": 0.3,
    "reference/runtime/": 0.3,
    "explanation/design/": 0.3,
    "learn/": 0.5,
}
"""The factors by which results below an address are preferred."""

WORDS = {
    "how-to/control-flow/": "while for loop if lax rnn lstm gru",
    "how-to/data/": "dataloader dataset data loader augmentation prefetch num_workers",
    "how-to/distributed/": "multi gpu ddp mpi distributed data parallel nccl multiple gpus",
    "how-to/eager/": "backward autograd zero_grad requires_grad eager",
    "how-to/fine-tune/": "lora peft freeze finetune fine tune tuning transfer learning adapter unfreeze",
    "how-to/from-jax/": "jax flax optax equinox jnp lax",
    "how-to/from-pytorch/": "pytorch torch state_dict",
    "how-to/gpus/": "cuda gpu gpus metal vulkan dx12 nvidia amd mps rocm device devices",
    "how-to/inspect/": "profiler profile profiling debug print visualize",
    "how-to/memory/": "oom out of memory limit tune",
    "how-to/mixed-precision/": "amp autocast mixed precision fp16 f16 half bf16 bfloat16 float16",
    "how-to/notebooks/": "jupyter notebook notebooks colab ipython",
    "how-to/optimizers/": "learning rate lr optimizer optimizers weight decay param_groups",
    "how-to/optimizers/#accumulating-gradients": "gradient accumulation accumulate accumulation",
    "how-to/optimizers/#schedules": "scheduler lr_scheduler schedule schedules warmup cosine annealing",
    "how-to/random/": "seed manual_seed prng key random rng",
    "how-to/save-and-load/": "save load model weights state_dict pickle safetensors checkpoint checkpoints",
    "how-to/training/#nan-losses": "nan nans inf anomaly",
    "how-to/web/": "browser javascript webgpu export web npm",
    "reference/derivatives/#tensorgrad.transforms.custom_vjp.custom_vjp": "custom gradient function autograd",
    "reference/functions/#tensorgrad.ops.elementwise.arithmetic.clip": "clip clamp",
    "reference/nn/#tensorgrad.nn.attention.MultiHeadAttention": "attention multihead multiheadattention mha",
    "reference/nn/#tensorgrad.nn.layers.Linear": "nn linear dense fc",
    "reference/nn/#tensorgrad.nn.normalization.BatchNorm1d": "batchnorm batch norm batchnormalization",
    "reference/training/#tensorgrad.optim.adam": "adam optim",
    "reference/training/#tensorgrad.optim.clip_by_global_norm": "gradient clipping clip_grad_norm clip_grad_norm_",
    "reference/training/#tensorgrad.ops.losses.cross_entropy": "cross entropy crossentropyloss cross_entropy nll",
    "tutorial/train/": "install pip quickstart getting started",
}
"""Words that find an address first, besides those of its text."""


def on_post_build(config: Mapping[str, Any], **_: Any) -> None:
    """Adds factors and words to the index that the plugin `search` has written.

    Raises:
        KeyError: An address of the table is not in the index.
    """
    path = Path(config["site_dir"], "search", "search_index.json")
    index = json.loads(path.read_text(encoding="utf-8"))
    entries = {entry["location"]: entry for entry in index["docs"]}
    for location, entry in entries.items():
        for prefix, factor in BOOSTS.items():
            if location.startswith(prefix):
                entry["boost"] = factor
    for location, words in WORDS.items():
        entries[location]["tags"] = words.split()
    path.write_text(json.dumps(index, separators=(",", ":")), encoding="utf-8")

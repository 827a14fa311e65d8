"""A variational autoencoder of handwritten digits: encodes 8x8 images as 8 numbers, and generates new images.

Its bound on the negative log-likelihood of test images falls below 24.6 nats, compared with 27.0 for the mean of all
images (both by the cross-entropy of grey values, which is at least 13.7). It ends by printing generated images.

python examples/vae.py --device auto
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import tensorgrad as tg

BATCH, TEST_SIZE, STEPS, LATENT, WIDTH = 128, 360, 1000, 8, 256
SHADES = " .:-=+*#%@"


class VAE(tg.nn.Module):
    """An encoder to the mean and the logarithm of the variance of a code, and a decoder of codes to logits."""

    def __init__(self, width: int, latent: int) -> None:
        super().__init__()
        self.latent = latent
        self.encoder = tg.nn.MLP(64, width, 2 * latent)
        self.decoder = tg.nn.MLP(latent, width, 64)

    def encode(self, images: tg.Tensor) -> tuple[tg.Tensor, tg.Tensor]:
        code = self.encoder(images)
        return code[:, : self.latent], code[:, self.latent :]


def loss(model: VAE, images: tg.Tensor, key: tg.Tensor) -> Any:
    """Returns the negative evidence lower bound, in nats per image (Kingma and Welling, 2014)."""
    mean, log_variance = model.encode(images)
    code = mean + tg.exp(log_variance / 2) * tg.random.normal(key, mean.shape)
    pixels = tg.binary_cross_entropy_with_logits(model.decoder(code), images, reduction="none")
    divergence = 0.5 * tg.sum(tg.exp(log_variance) + mean**2 - 1 - log_variance, axis=1)
    return tg.mean(tg.sum(pixels, axis=1) + divergence), {"divergence": tg.mean(divergence)}


def bound(model: VAE, images: tg.Tensor) -> tg.Tensor:
    """Returns the same bound with fixed noise, for evaluation."""
    return loss(model, images, tg.random.key(0))[0]


def load_images() -> tuple[np.ndarray, np.ndarray]:
    """Returns the training and test images, `[images, 64]` from 0 to 1; the split is always the same."""
    from sklearn import datasets

    data: Any = datasets.load_digits()
    images = (data.data / 16).astype(np.float32)[np.random.default_rng(0).permutation(len(data.data))]
    return images[TEST_SIZE:], images[:TEST_SIZE]


def mean_image_loss(train: np.ndarray, test: np.ndarray) -> float:
    """Returns the loss of reconstructing every test image by the mean of the training images."""
    mean = np.clip(train.mean(axis=0), 1e-6, 1 - 1e-6)
    return float(-(test * np.log(mean) + (1 - test) * np.log(1 - mean)).sum(axis=1).mean())


def train(
    device: tg.DeviceName, steps: int, seed: int, width: int = WIDTH, progress: bool = True
) -> tuple[tg.Training, tg.Report]:
    """Trains a model; the report's last evaluation is its bound on test images."""
    images, test = load_images()
    training = tg.compile(
        VAE(width, LATENT),
        loss=loss,
        optimizer=tg.optim.adam(tg.optim.schedules.cosine(2e-3, steps)),
        inputs={"images": (BATCH, 64)},
        device=device,
        seed=seed,
    )
    data = tg.data.batches({"images": images}, BATCH, shuffle=seed)

    def evaluate(training: tg.Training) -> dict[str, float]:
        return {"bound": training.evaluate(bound, [{"images": test}])}

    report = tg.fit(training, data, steps=steps, evaluate=evaluate, evaluate_every=500, progress=progress)
    return training, report


def drawn(training: tg.Training, count: int, seed: int) -> np.ndarray:
    """Returns new images, decoded from normally distributed codes."""
    decode = training.attach(lambda model, code: tg.sigmoid(model.decoder(code)))
    return np.asarray(decode(code=tg.random.normal(tg.random.key(seed), (count, LATENT)))).reshape(count, 8, 8)


def as_text(images: np.ndarray) -> str:
    """Returns images as text, side by side, two characters per pixel."""
    shades = np.array(list(SHADES))[np.clip(images * len(SHADES), 0, len(SHADES) - 1).astype(int)]
    return "\n".join("   ".join("".join(np.repeat(image[row], 2)) for image in shades) for row in range(8))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", choices=["auto", "wgpu", "cpu", "numpy"])
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    if options.steps < 1:
        parser.error("--steps must be at least 1")
    training, report = train(options.device, options.steps, options.seed)
    print(f"backend: {training.device}")
    print(f"bound on test images: {report.evaluations[-1][1]['bound']:.2f} nats")
    print(f"the mean image: {mean_image_loss(*load_images()):.2f} nats")
    print(as_text(drawn(training, 5, options.seed)))


if __name__ == "__main__":
    main()

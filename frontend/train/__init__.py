"""The training loop: `fit`, its callbacks, data, logs and the state of a run."""

"""A training loop of eager tensors, as in PyTorch."""

import numpy as np

import tensorgrad as tg

model = tg.nn.Sequential(tg.nn.Linear(3, 8), tg.nn.ReLU(), tg.nn.Linear(8, 1)).initialized(0, device="numpy")
optimizer = tg.optim.Adam(model.parameters(), lr=1e-2)
x = tg.tensor(np.ones((4, 3)), dtype="f32", device="numpy")
y = tg.tensor(np.zeros((4, 1)), dtype="f32", device="numpy")
losses: list[float] = []
for _ in range(3):
    loss = tg.mse(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < losses[0]

with tg.no_grad():
    scale = tg.tensor(2.0, device="numpy", requires_grad=True)
    scale.mul_(2.0)
assert scale.item() == 4.0 and scale.is_leaf and scale.requires_grad

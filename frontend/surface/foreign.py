"""Names of other libraries, and what to use here in their place.

They are looked up only when a name is not found. Names that mean the same here are accepted: the stubs list them, as
`other = name`. Those that only differ are in the table of `tensorgrad.surface.counterparts`; here are the others, and
those of which there is more to say.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Mapping
from importlib import import_module
from operator import attrgetter
from types import FunctionType

from tensorgrad.errors import UnknownNameError
from tensorgrad.surface.counterparts import by_foreign_name

_PLACE = "device= of tg.compile and tg.jit says where to compute; arrays move by themselves"
_MODEL_PLACE = (
    "device= of tg.compile says where to train, and model.initialized(device=...) returns the model with tensors on a "
    "device"
)
_IN_PLACE = (
    "only tensors of tg.tensor, outside a trace, can be changed; here x = x.at[key].set(value) makes a changed copy"
)
_TRAINING = "training.step(...) takes gradients and updates, once tg.compile has made the training"
_LIST = "a list of modules, assigned to an attribute, is found as it is"
_PLATEAU = "tg.callbacks.ReduceOnPlateau(monitor), a callback of tg.fit, is that"
_SCHEDULE = "learning rates that change are in tg.optim.schedules, given in place of the learning rate"
_GENERAL_EIGENVALUES = (
    "eigenvalues of matrices that are not symmetric are complex, and numbers here are real; eigh is for symmetric ones"
)
_TREES = "tg.tree_map maps a function over trees, and tg.ravel_pytree makes a vector of one"
_SLICE = "tg.take(x, start + tg.arange(size), axis) does that, for a start that is traced too"
_TRACED = "tg.trace(function, shape) shows what a function is traced to"
_GROUP = "group= of tg.compile divides a step among processes"
_FOLDS = "tg.cumsum, tg.cumprod, tg.cummax and tg.logcumsumexp are running folds, and tg.scan is a loop with state"
_READ = "reading waits for a value: float(x), x.numpy()"
_CALL = "a model is called itself, model(x): what others name forward is __call__ here"
_ALONE = (
    "tg.max, tg.min, tg.median and tg.sort return the values alone, as one tensor; tg.argmax, tg.argmin and tg.argsort "
    "have the positions"
)
_SMOOTH_L1 = "tg.huber(prediction, target, delta=beta) / beta is that"
_FACTORS = (
    "tg.optim.schedules.from_function(function) is near: the function returns the rate itself, not a factor of it, and "
    "counts steps from 1"
)

NAMES: Mapping[str, Mapping[str, str]] = {
    "tensorgrad": {
        "bucketize": "tg.searchsorted(boundaries, x) is that, side='right' its right=True",
        "triu_indices": "np.triu_indices(n) is that: positions are constants",
        "tril_indices": "np.tril_indices(n) is that: positions are constants",
        "associative_scan": _FOLDS,
        "baddbmm": "x + a @ b does that",
        "addmm": "x + a @ b does that",
        "block_until_ready": _READ,
        "ctc_loss": "there is none, as it needs a kernel of its own; tg.scan over tg.logsumexp makes a small one",
        "custom_jvp": "tg.custom_vjp has forward mode too, where its backward is linear in the cotangent",
        "debug": "tg.capture(name, x) names a value in a traced function, and training.capture(name, ...) reads it",
        "device_get": "x.numpy() has the values",
        "device_put": "tg.tensor(x, device=...) makes a tensor on a device, and x.to(device) copies one there",
        "distributions": "tg.random draws; logarithms of probabilities are written with tg.log and tg.lgamma",
        "dot": "x @ y does that, and tg.tensordot other sums of products",
        "dynamic_index_in_dim": "tg.take(x, index, axis) does that, for an index that is traced too",
        "dynamic_slice": _SLICE,
        "dynamic_slice_in_dim": _SLICE,
        "dynamic_update_slice": "x.at[start + tg.arange(size)].set(values) does that, for a start that is traced too",
        "eig": _GENERAL_EIGENVALUES,
        "expand_as": "tg.broadcast_to(x, y.shape) does that",
        "flatten_util": _TREES,
        "func": "tg.grad, tg.vjp, tg.jvp, tg.vmap and tg.hessian are functions of functions",
        "index_add": "x.at[indices].add(values) does that",
        "index_select": "tg.take(x, indices, axis) does that",
        "smooth_l1_loss": _SMOOTH_L1,
        "kthvalue": "tg.sort(x, axis) at index k - 1 does that",
        "lax": "tg.scan, tg.cond, tg.while_loop and tg.fori_loop are loops and branches; others are in tensorgrad",
        "linear": "x @ weight + bias does that, and tg.nn.Linear in a model",
        "linearize": "tg.jvp and tg.vjp apply a derivative without its matrix",
        "make_jaxpr": _TRACED,
        "map": "tg.vmap(function) maps at once, and tg.scan one after another",
        "pmap": _GROUP,
        "set_printoptions": "np.set_printoptions does that",
        "shard_map": _GROUP,
        "special": "functions are in tensorgrad itself, such as tg.erf and tg.logit",
        "switch": "tg.cond chooses between two functions, and nests",
        "tree": _TREES,
        "tree_flatten": _TREES,
        "tree_leaves": _TREES,
        "tree_util": _TREES,
        "Generator": "keys of tg.random are values: tg.random.key(0)",
        "dropout": "tg.random.dropout(key, x, rate) does that, and tg.nn.Dropout in a model",
        "from_numpy": "tg.array makes arrays, and functions take numpy's as they are",
        "multinomial": "tg.random.categorical(key, logits) draws",
        "unique": "its shape depends on values: np.unique does that, outside of traces",
        "utils": "clip_norm= of an optimizer clips gradients; tg.data has batches",
        "autograd": "tg.grad, tg.vjp and tg.custom_vjp are for derivatives",
        "backends": _PLACE,
        "cpu": _PLACE,
        "cuda": _PLACE,
        "device": _PLACE,
        "functional": "functions are in tensorgrad itself, such as tg.relu",
        "hamming_window": "np.hamming(n + 1)[:-1] is that",
        "hann_window": "np.hanning(n + 1)[:-1] is that",
        "logdet": "tg.linalg.slogdet has logarithms of determinants, and their signs",
        "manual_seed": "seeds are arguments: tg.compile(seed=0), tg.random.key(0)",
        "numpy": "functions that numpy has are in tensorgrad itself, such as tg.sum",
        "rand": "tg.random.uniform(key, shape) draws",
        "randint": "tg.random.randint(key, shape, low, high) draws",
        "randn": "tg.random.normal(key, shape) draws",
        "randperm": "tg.random.permutation(key, n) draws",
        "save": "Training.save_checkpoint does that, and Training.save for programs, which tg.load runs",
        "set_default_device": _PLACE,
        "set_grad_enabled": "tg.no_grad() and tg.enable_grad() are that, as context managers",
        "view": "tg.reshape does that",
    },
    "tensorgrad.fft": {
        "hfft2": "irfft2(x.conj(), s, norm=...) is that, with the norms exchanged",
        "hfftn": "irfftn(x.conj(), s, axes, norm=...) is that, with the norms exchanged",
        "ihfft2": "rfft2(x, s, norm=...).conj() is that, with the norms exchanged",
        "ihfftn": "rfftn(x, s, axes, norm=...).conj() is that, with the norms exchanged",
    },
    "tensorgrad.linalg": {
        "cond": "matrix_norm(x) times matrix_norm(inv(x)) is a condition number, with ord= of the norm",
        "eig": _GENERAL_EIGENVALUES,
        "eigvals": _GENERAL_EIGENVALUES,
        "lu": "lu_factor has the factors in one matrix, and the permutation",
        "lu_solve": "solve_triangular solves with one of the factors, then with the other, see lu_factor",
        "lstsq": "pinv(a) @ b is the least-squares solution",
        "matrix_exp": "w, v = tg.linalg.eigh(a) gives that of a symmetric matrix: (v * tg.exp(w)) @ v.T",
        "multi_dot": "a @ b @ c does that",
        "norm": "vector_norm and matrix_norm do that, and tg.norm",
    },
    "tensorgrad.nn": {
        "EmbeddingBag": "tg.segment_sum(embedding(tokens), bags, count) is that, and tg.segment_mean",
        "Transformer": "tg.nn.TransformerEncoder and tg.nn.TransformerDecoder are its halves",
        "spectral_norm": "weight / tg.linalg.matrix_norm(weight, ord=2) is that, in a module of your own",
        "weight_norm": "scale * weight / tg.norm(weight, axis=..., keepdims=True) is that, in a module of your own",
        "MultiheadAttention": (
            "tg.nn.MultiHeadAttention is that, where the batch comes first, booleans of masks say where to attend, and "
            "weights are not returned"
        ),
        "DataParallel": "there is one device",
        "Dense": "tg.nn.Linear(in_features, out_features) is that",
        "LazyLinear": "tg.nn.Linear(in_features, out_features) is told both",
        "ModuleDict": "a dict of modules, assigned to an attribute, is found as it is",
        "ModuleList": _LIST,
        "SmoothL1Loss": _SMOOTH_L1,
        "ParameterDict": "a dict of parameters, assigned to an attribute, is found as it is",
        "ParameterList": "a list of parameters, assigned to an attribute, is found as it is",
        "functional": "functions are in tensorgrad itself, such as tg.relu",
        "init": "initializers are in tg.initializers, given as init= of tg.nn.param",
        "utils": "clip_norm= of an optimizer clips gradients",
    },
    "tensorgrad.optim": {
        "apply_updates": "training.step(...) applies them, and so does step() of tg.optim.Adam(parameters)",
        "warmup_cosine_decay_schedule": "tg.optim.schedules.cosine(rate, steps, warmup=...) is that",
        "ASGD": "tg.optim.sgd is the nearest",
        "LBFGS": "tg.optim.minimize(function, start, *data) is that, on all data at once",
        "lbfgs": "tg.optim.minimize(function, start, *data) is that, on all data at once",
        "LambdaLR": _FACTORS,
        "ReduceLROnPlateau": _PLATEAU,
        "lr_scheduler": _SCHEDULE,
        "swa_utils": "tg.optim.weight_ema(optimizer, decay) keeps averages of the parameters",
    },
    "tensorgrad.optim.schedules": {
        "ReduceLROnPlateau": _PLATEAU,
        "LambdaLR": _FACTORS,
        "ExponentialLR": "exponential with every=1 is that",
    },
    "tensorgrad.data": {
        "DataLoader": "tg.data.batches(arrays, size) makes batches, and tg.data.prefetch prepares them ahead",
        "Dataset": "tg.data.batches takes a dict of arrays, tg.data.generated a function",
    },
    "tensorgrad.random": {
        "binomial": "tg.sum(tg.random.bernoulli(key, p, (n, *shape)), 0) draws",
        "choice": "tg.random.categorical draws by weight, tg.random.permutation an order",
        "manual_seed": "tg.random.key(seed) makes a key, which every function takes first",
        "rand": "tg.random.uniform(key, shape) draws",
        "randint": "tg.random.randint(key, shape, low, high) draws",
        "randn": "tg.random.normal(key, shape) draws",
        "seed": "tg.random.key(seed) makes a key, which every function takes first",
    },
    "Tensor": {
        "indices": _ALONE,
        "values": _ALONE,
        "block_until_ready": _READ,
        "dot": "x @ y does that",
        "expand_as": "x.expand(y.shape) does that",
        "index_add": "x.at[indices].add(values) does that",
        "assign": "in the loss of tg.compile buffers have it, and parameters that are not trained",
        "backward": "inside what is traced tg.grad differentiates; outside, what is computed from tg.tensor has it",
        "cast": 'x.astype("f32") does that',
        "add_": _IN_PLACE,
        "copy_": _IN_PLACE,
        "fill_": _IN_PLACE,
        "mul_": _IN_PLACE,
        "sub_": _IN_PLACE,
        "index_select": "x.take(indices, axis) does that",
        "is_cuda": "x.device says where a tensor lives, training.device where a program runs",
        "new_ones": "tg.ones(shape, dtype=x.dtype) makes another",
        "new_zeros": "tg.zeros(shape, dtype=x.dtype) makes another",
        "normal_": "x.copy_(tg.random.normal(key, x.shape)) does that",
        "uniform_": "x.copy_(tg.random.uniform(key, x.shape)) does that",
        "type_as": "x.astype(y.dtype) does that",
        "cuda": 'x.to("wgpu") copies an eager tensor there; ' + _PLACE,
        "data": "x.detach() is a constant to derivatives, and shares the memory of an eager tensor",
        "dim": "x.ndim is the number of axes",
        "grad": "inside what is traced tg.grad(function) gives the gradient; outside, tensors of tg.tensor have it",
        "requires_grad": "tg.grad says by which arguments; outside a trace, tg.tensor(x, requires_grad=True)",
        "requires_grad_": "tg.grad says by which arguments; outside a trace, tg.tensor(x, requires_grad=True)",
        "scatter_": "x.at[key].set(values) gives a changed copy",
        "t": "x.T has the axes reversed",
        "type": "x.astype(dtype) changes the dtype",
        "zero_": _IN_PLACE,
    },
    "Change": {
        "apply": "x.at[key].set(function(x[key])) does that",
        "div": "x.at[key].divide(values) does that",
        "maximum": "x.at[key].max(values) does that",
        "minimum": "x.at[key].min(values) does that",
        "mul": "x.at[key].multiply(values) does that",
        "pow": "x.at[key].power(values) does that",
        "sub": "x.at[key].subtract(values) does that",
    },
    "Parameter": {
        "data": "model.initialized(seed) gives a model with values",
        "grad": "training.gradients(...)[path] has it, and x.grad in a model of initialized(seed, device=...)",
        "nelement": "p.numel() is that",
    },
    "Module": {
        "cpu": _MODEL_PLACE,
        "cuda": _MODEL_PLACE,
        "eval": "tg.nn.inference(model) is the form for inference",
        "forward": _CALL,
        "load_state_dict": "training.load_parameters(values) does that, and tg.nn.from_torch for PyTorch's",
        "apply": "init= and bias_init= of a layer say how its parameters start",
        "register_forward_hook": "tg.capture(name, x) in the model returns intermediate values",
        "register_buffer": "self.name = tg.nn.buffer(shape) declares a buffer",
        "register_parameter": "self.name = tg.nn.param(shape) declares a parameter",
        "requires_grad_": "model.freeze(pattern) and model.trainable(pattern) say what is trained",
        "state_dict": "training.state_dict() and training.parameters() have the values",
        "to": _MODEL_PLACE,
        "train": "a model trains unless it is in the form of tg.nn.inference(model)",
    },
    "Training": {
        "backward": _TRAINING,
        "eval": "training.attach(function) compiles another function of the same parameters",
        "train": _TRAINING,
        "zero_grad": _TRAINING,
    },
}
"""The suggestion for each name, by the kind of object it is looked up on and the name."""

KEYWORDS: Mapping[str, str] = {
    "aux": "has_aux",
    "axes": "axis",
    "body_fun": "body",
    "cond_fun": "condition",
    "data": "x",
    "init_val": "state",
    "input": "x",
    "input_size": "in_features",
    "lr": "learning_rate",
    "num_classes": "classes",
    "output_size": "out_features",
    "p": "rate",
    "steps": "num",
    "unbiased": "correction",
}
"""Our names of other libraries' arguments."""

WITHOUT: Mapping[str, str] = {
    "batch_first": "the batch always comes first",
    "inplace": "nothing is changed in place",
    "device": "tg.tensor(x, device=...) places a tensor, device= of tg.compile or of initialized a model",
}
"""What to know about other libraries' arguments that ours have no need of."""

MASKS: Mapping[str, str] = {
    **dict.fromkeys(("attn_mask", "key_padding_mask", "src_mask", "src_key_padding_mask"), "mask"),
    **dict.fromkeys(("tgt_mask", "tgt_key_padding_mask"), "mask"),
    "memory_key_padding_mask": "memory_mask",
}
"""Our names of the masks of PyTorch's layers, whose booleans mean the opposite; those of its functions don't."""
_AXIS = frozenset({"axis"})
_PAIR = "returns a pair of values and indices in PyTorch, and only the values here: write axis= for the values"
_PARTS = "takes the size of the parts, or a list of sizes"
_UNBIASED = "divides by n - 1 in PyTorch, and by n here: write correction=1 for the one, and axis= for the other"

DIFFERENT: Mapping[str, tuple[str, frozenset[str]]] = {
    "max": (f"{_PAIR}, or tg.amax, and tg.argmax for the positions", _AXIS),
    "min": (f"{_PAIR}, or tg.amin, and tg.argmin for the positions", _AXIS),
    "sort": (f"{_PAIR}, and tg.argsort for the positions", _AXIS),
    "median": (
        f"{_PAIR}, of which an even number has the mean of two as its median, and tg.argsort for positions",
        _AXIS,
    ),
    "split": (
        f"{_PARTS} in PyTorch, and here the number of parts, or a list of where they begin: write axis= for that",
        _AXIS,
    ),
    "std": (_UNBIASED, _AXIS | {"correction"}),
    "var": (_UNBIASED, _AXIS | {"correction"}),
}
"""Functions that PyTorch's names of arguments would silently give another meaning, what to write, and the arguments
beside which the meaning is clear."""

PLACES = ("", ".nn", ".random", ".linalg", ".fft", ".optim", ".data", ".initializers", ".callbacks")
"""The public modules whose names may be looked for in another one."""


LEAST_ALIKE, LEAST_ALIKE_ARGUMENT = 0.75, 0.6
"""The least similarity of a name that is suggested, as `difflib` measures it: among many, or arguments."""


def nearest(name: str, names: Iterable[str], least: float = LEAST_ALIKE) -> str:
    """Returns a suggestion for a misspelt name, as the end of a message: `; did you mean …?`, or nothing."""
    known = [candidate for candidate in names if not candidate.startswith("_")]
    lowered = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(name, known, 1, least)
    near = near or difflib.get_close_matches(name.lower(), lowered, 1, least)
    return f"; did you mean {lowered.get(near[0], near[0])}?" if near else ""


def _public(name: str, places: Iterable[str]) -> str | None:
    """Returns what is public by its name in some modules, or by another library's, without `tg.`."""
    place = next((place for place in places if name in dir(import_module(f"tensorgrad{place}"))), None)
    return by_foreign_name().get(name) if place is None else f"{place}.{name}".removeprefix(".")


def elsewhere(name: str) -> str:
    """Returns where what a module lacks is public, by its name or another library's, as the end of a message."""
    public = _public(name, PLACES)
    return f"; tg.{public} is that" if public else ""


def as_function(name: str) -> str:
    """Returns how to call the function of a name that tensors lack as a method, as the end of a message."""
    public = _public(name, ("", ".linalg", ".fft"))
    value = attrgetter(public)(import_module("tensorgrad")) if public else None
    if not isinstance(value, FunctionType):
        return ""
    return f"; tg.{public}({', '.join(inspect.signature(value).parameters)}) is a function"


def name_hint(owner: str, name: str, names: Iterable[str]) -> str:
    """Returns a suggestion for a name that `owner` lacks, as the end of a message."""
    if name.startswith("_"):
        return ""
    is_tensor = owner == "Tensor"
    meant = NAMES.get(owner, {}).get(name) or (NAMES["tensorgrad"].get(name) if is_tensor else None)
    if meant:
        return f"; {meant}"
    public = as_function(name) if is_tensor else elsewhere(name) if owner.startswith("tensorgrad") else ""
    return public or nearest(name, names)


def keyword_hint(name: str, names: Iterable[str], of_layer: bool = False) -> str:
    """Returns a suggestion for an argument that a function, or a layer, lacks, as the end of a message."""
    known = list(names)
    if of_layer and MASKS.get(name) in known:
        ours, axes = MASKS[name], "[:, None, None, :]" if "padding" in name else ""
        return f"; booleans of {ours} say where to attend, those of PyTorch's layers where not: {ours}=~{name}{axes}"
    if name in WITHOUT and name not in known:
        return f"; {WITHOUT[name]}"
    return (
        f"; it is {KEYWORDS[name]} here" if KEYWORDS.get(name) in known else nearest(name, known, LEAST_ALIKE_ARGUMENT)
    )


def unknown_name(module: str, name: str, names: Iterable[str]) -> UnknownNameError:
    """Returns the error for a name that one of our modules lacks."""
    return UnknownNameError(f"module {module!r}", name, lambda: name_hint(module, name, names))


def unknown_attribute(owner: str, title: str, name: str, value: object) -> UnknownNameError:
    """Returns the error for a name that one of our objects lacks.

    Args:
        owner: Its class, as in `NAMES`.
        title: A description of it.
        name: The name.
        value: The object.
    """
    return UnknownNameError(title, name, lambda: name_hint(owner, name, dir(value)))

"""Networks of other software on the same weights and inputs as hark: torch in 32 bits and with bf16 autocast, ONNX Runtime.

A row's module has a `Network`: how the reference builds it, what its inputs are, and how they are cut into batches. `prepare`
gives it seeded random weights that matter, writes them as weights.safetensors with the reference's names, the inputs as
inputs.npy, and the same network as model.onnx.
"""

import sys
import warnings

from rows.row import answer, fastest, load_torch, peer_parser, silence, timed

TORCH, BF16, ONNX = "torch", "torch bf16", "onnxruntime"
PEERS = [TORCH, BF16, ONNX]
PACKAGES = ["torch", "onnxruntime", "onnx", "onnxscript", "numpy", "safetensors"]


class Network:
    """A reference network; see PasstNetwork for an example."""

    # Items that torch gets at a time: all are tried, the fastest is taken.
    sizes = [1, 4, 8]
    # Dimensions of the inputs whose length is not fixed, for ONNX.
    dynamic: list[dict[int, str]] = []

    def build(self, torch, arguments):
        """The module, in evaluation mode: tensors of a batch in, [items, width] out."""
        raise NotImplementedError

    def initialise(self, torch, module, example):
        """Weights that matter."""
        enliven(torch, module, 2)

    def state(self, module):
        """Its tensors by the names that hark asks for."""
        return module.state_dict()

    def make_inputs(self, np, count):
        """A matrix with one row for each item."""
        raise NotImplementedError

    def order(self, np, rows):
        """The rows that are computed, in the order in which both sides compute them."""
        return rows

    def batch(self, np, rows):
        """Rows of the matrix as the arrays that the module takes."""
        raise NotImplementedError


def enliven(torch, module, seed):
    """Noise where a class begins with zeros, ones or next to nothing, and wider weights of attention.

    With the initial weights attention is flat and every input has almost the same output, so that nothing could disagree.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(module.named_parameters()):
            noise = torch.randn(parameter.shape, generator=generator)
            if "norm" in name.lower() and name.endswith("weight"):
                parameter.copy_(1.0 + 0.1 * noise)
            elif name.endswith("bias"):
                parameter.copy_(0.05 * noise)
            elif "pos_embed" in name or name.endswith("token"):
                parameter.copy_(0.3 * noise)
            elif "embeddings" in name:
                parameter.copy_(0.1 * noise)
            elif name.endswith(("attn.qkv.weight", "query.weight", "key.weight")):
                parameter.mul_(3.0)


def save_weights(tensors, path):
    from safetensors.torch import save_file

    floats = {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items() if tensor.is_floating_point()}
    save_file(floats, path)


def prepare(network, arguments):
    import numpy as np

    torch = load_torch(arguments.threads)
    module = network.build(torch, arguments)
    rows = network.make_inputs(np, arguments.count)
    network.initialise(torch, module, [torch.from_numpy(part) for part in network.batch(np, rows[:4])])
    save_weights(network.state(module), arguments.work / "weights.safetensors")
    np.save(arguments.work / "inputs.npy", rows.astype(np.float32))
    why = None
    try:
        export(torch, network, module, [torch.from_numpy(part) for part in network.batch(np, rows[:2])], arguments.work / "model.onnx")
    except Exception as error:  # Whatever the exporter cannot do: the row goes on without this peer.
        why = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        (arguments.work / "model.onnx").unlink(missing_ok=True)
    answer(onnx=why)


def export(torch, network, module, example, path):
    shapes = tuple({place: torch.export.Dim.DYNAMIC for place in dynamic} for dynamic in network.dynamic)
    names = [f"input{nth}" for nth in range(len(example))]
    torch.onnx.export(module, tuple(example), str(path), input_names=names, output_names=["features"], dynamo=True,
                      dynamic_shapes=shapes, external_data=True, verbose=False)


def load(network, arguments):
    """A function from the arrays of a batch to features."""
    if arguments.side == ONNX:
        import onnxruntime

        path = arguments.work / "model.onnx"
        if not path.exists():
            sys.exit("torch.onnx could not export the network")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = arguments.threads
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        names = [each.name for each in session.get_inputs()]
        return lambda arrays: session.run(None, dict(zip(names, arrays)))[0]
    from safetensors.torch import load_file

    torch = load_torch(arguments.threads)
    module = network.build(torch, arguments)
    wanted = network.state(module)
    given = load_file(arguments.work / "weights.safetensors")
    with torch.no_grad():
        for name, tensor in wanted.items():
            if tensor.is_floating_point():
                tensor.copy_(given[name])

    def forward(arrays):
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=arguments.side == BF16):
            return module(*(torch.from_numpy(array) for array in arrays)).float().numpy()

    return forward


def compute(network, arguments):
    import numpy as np

    forward = load(network, arguments)
    rows = network.order(np, np.load(arguments.work / "inputs.npy")[: arguments.count])

    def batches(size):
        return [network.batch(np, rows[first:first + size]) for first in range(0, len(rows), size)]

    batch = arguments.batch
    if batch is None:
        few = [size for size in network.sizes if size <= len(rows)]
        prepared = {size: batches(size) for size in few}
        batch = fastest(lambda size: [forward(arrays) for arrays in prepared[size]], few) if len(few) > 1 else few[0]
    ready = batches(batch)
    seconds, features = timed(lambda: [forward(arrays) for arrays in ready], arguments.repeat)
    if arguments.output:
        # Some networks leave out the first dimension of a batch of one.
        np.save(arguments.output, np.concatenate(features).reshape(len(rows), -1).astype(np.float32))
    answer(seconds=seconds, count=len(rows), choice=batch)


def main(network, description, add_arguments=None):
    parser = peer_parser(description)
    if add_arguments:
        add_arguments(parser)
    arguments = parser.parse_args()
    silence()
    warnings.filterwarnings("ignore")
    (prepare if arguments.side == "prepare" else compute)(network, arguments)

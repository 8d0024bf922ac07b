//! Operations of the towers that Burn's CPU backend is slow at, each with its gradient: linear layers, GELU, layer norm, attention,
//! convolutions with ReLU, and the residual sum with dropout.
//!
//! On the CPU and in f32 they run the loops of [`hark_kernels`]; the gradient of each is written by hand and keeps no more than
//! it needs. Other devices and other number types get the same from Burn's own operations. The tests compare the two, in values
//! and in gradients.

use std::sync::Arc;

use burn::backend::autodiff::{
    NodeId,
    checkpoint::{
        base::Checkpointer, retro_forward::RetroForward, state::BackwardStates, strategy::CheckpointStrategy,
    },
    grads::Gradients,
    ops::{Backward, Ops, OpsKind, unary},
};
use burn::backend::{
    Autodiff, Backend, Dispatch, Flex, TensorMetadata, backend_extension, ops::FloatTensorOps,
    tensor::FloatTensor,
};
use burn::tensor::module::conv2d;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{DType, Device, Tensor, TensorData, activation};
use hark_kernels as kernels;
use hark_kernels::{Attended, Matrix, Norm, Packed, Start};
use rayon::prelude::*;

use crate::dropout::Mask;
use crate::layer_norm::LayerNorm;
use crate::linear::Linear;
use crate::tensors::numbers;

/// Numbers that one thread does at a time.
const PIECE: usize = 1 << 14;

/// Whether the loops of this processor compute with the tensor.
fn is_ours<const D: usize>(x: &Tensor<D>) -> bool {
    // Devices are equal whether or not they record gradients.
    x.device() == Device::flex() && x.dtype() == DType::F32
}

/// x Φ(x), the exact GELU, with its gradient.
pub(crate) fn gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    if !is_ours(&x) {
        return activation::gelu(x);
    }
    Tensor::from_dispatch(<Dispatch as Fused>::fused_gelu(x.into_dispatch()))
}

/// x W + b for every row of `[rows, input]`.
pub(crate) fn linear(x: Tensor<2>, layer: &Linear) -> Tensor<2> {
    if let Some(packed) = layer.packed() {
        return packed_linear(x, packed, layer);
    }
    let weight = layer.weight.val();
    match &layer.bias {
        Some(bias) if is_ours(&x) => Tensor::from_dispatch(<Dispatch as Fused>::fused_linear(
            x.into_dispatch(),
            weight.into_dispatch(),
            bias.val().into_dispatch(),
        )),
        Some(bias) => x.matmul(weight) + bias.val().unsqueeze(),
        None => x.matmul(weight),
    }
}

/// The same with a packed weight, without a gradient.
fn packed_linear(x: Tensor<2>, weight: &Packed, layer: &Linear) -> Tensor<2> {
    let ([rows, input], device) = (x.dims(), x.device());
    let x = numbers(x);
    let bias = layer.bias.as_ref().map(|bias| numbers(bias.val()));
    let start = bias.as_deref().map_or(Start::Zero, Start::Row);
    let out = kernels::product_packed(Matrix::new(&x, rows, input, input), weight, start);
    Tensor::from_data(TensorData::new(out, [rows, weight.columns()]), &device)
}

/// The norm of every row of `[rows, width]`.
pub(crate) fn norm(x: Tensor<2>, norm: &LayerNorm) -> Tensor<2> {
    if is_ours(&x) {
        return Tensor::from_dispatch(<Dispatch as Fused>::fused_norm(
            x.into_dispatch(),
            norm.gamma.val().into_dispatch(),
            norm.beta.val().into_dispatch(),
            norm.epsilon as f32,
        ));
    }
    let centred = x.clone() - x.mean_dim(1);
    let variance = centred.clone().powi_scalar(2).mean_dim(1);
    let normed = centred / variance.add_scalar(norm.epsilon).sqrt();
    normed * norm.gamma.val().unsqueeze() + norm.beta.val().unsqueeze()
}

/// x + part, where numbers of the part are dropped. Both are `[rows, width]`.
pub(crate) fn residual(x: Tensor<2>, part: Tensor<2>, mask: Option<Mask>) -> Tensor<2> {
    if !is_ours(&x) {
        return match mask {
            Some(mask) => x + mask.drop(part),
            None => x + part,
        };
    }
    let sum =
        <Dispatch as Fused>::fused_residual(x.into_dispatch(), part.into_dispatch(), mask.map(Arc::new));
    Tensor::from_dispatch(sum)
}

/// ReLU of a convolution of `[items, inputs, height, width]` with `[outputs, inputs, kernel, kernel]`.
pub(crate) fn convolution(
    x: Tensor<4>,
    weight: Tensor<4>,
    bias: Tensor<1>,
    stride: usize,
    padding: usize,
) -> Tensor<4> {
    if is_ours(&x) {
        return Tensor::from_dispatch(<Dispatch as Fused>::fused_convolution(
            x.into_dispatch(),
            weight.into_dispatch(),
            bias.into_dispatch(),
            stride,
            padding,
        ));
    }
    let options = ConvOptions::new([stride, stride], [padding, padding], [1, 1], 1);
    activation::relu(conv2d(x, weight, Some(bias), options))
}

/// What attention needs beside query, key and value; `hark_kernels::Attention` says what each is.
#[derive(Debug, Clone)]
pub(crate) struct AttentionShape {
    pub(crate) heads: usize,
    pub(crate) head_width: usize,
    pub(crate) lengths: Arc<[usize]>,
    pub(crate) queries: Option<usize>,
    pub(crate) bias: Option<Arc<AttentionBias>>,
    pub(crate) mask: Option<Mask>,
}

/// A bias in memory, with the distances between its numbers.
#[derive(Debug, Clone)]
pub(crate) struct AttentionBias {
    numbers: Vec<f32>,
    strides: [usize; 3],
}

impl AttentionBias {
    /// From `[1 or sequences, 1 or heads, 1 or tokens, tokens]`.
    pub(crate) fn new(bias: Tensor<4>) -> Self {
        let [sequences, heads, queries, keys] = bias.dims();
        let stride = |size: usize, stride: usize| if size == 1 { 0 } else { stride };
        let strides = [
            stride(sequences, heads * queries * keys),
            stride(heads, queries * keys),
            stride(queries, keys),
        ];
        Self {
            numbers: numbers(bias),
            strides,
        }
    }
}

impl AttentionShape {
    /// Calls `work` with the attention in the form of the loops.
    fn with<T>(&self, work: impl FnOnce(&kernels::Attention<'_>) -> T) -> T {
        let drop = self.mask.as_ref().map(|mask| {
            move |sequence: usize, head: usize, query: usize, row: &mut [f32]| {
                mask.drop_row(sequence, crate::dropout::attention_place(head, query), row);
            }
        });
        work(&kernels::Attention {
            heads: self.heads,
            head_width: self.head_width,
            lengths: &self.lengths,
            queries: self.queries,
            bias: self.bias.as_ref().map(|bias| kernels::Bias {
                numbers: &bias.numbers,
                strides: bias.strides,
            }),
            drop: drop.as_ref().map(|drop| drop as kernels::Drop<'_>),
        })
    }
}

/// Attention of `[tokens of all sequences, 3 * width]`, query, key and value beside each other, to `[queries, width]`.
///
/// Only for tensors that are ours ([`can_attend`]).
pub(crate) fn attention(query_key_value: Tensor<2>, shape: AttentionShape) -> Tensor<2> {
    Tensor::from_dispatch(<Dispatch as Fused>::fused_attention(
        query_key_value.into_dispatch(),
        Arc::new(shape),
    ))
}

/// Whether [`attention`] takes this tensor.
pub(crate) fn can_attend(x: &Tensor<2>) -> bool {
    is_ours(x)
}

/// Burn's backends that have the operations: the CPU one, alone and where it records gradients.
#[backend_extension(Flex, Autodiff)]
trait Fused: Backend {
    fn fused_gelu(x: FloatTensor<Self>) -> FloatTensor<Self>;
    fn fused_linear(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> FloatTensor<Self>;
    fn fused_norm(
        x: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        shift: FloatTensor<Self>,
        epsilon: f32,
    ) -> FloatTensor<Self>;
    fn fused_residual(
        x: FloatTensor<Self>,
        part: FloatTensor<Self>,
        mask: Option<Arc<Mask>>,
    ) -> FloatTensor<Self>;
    fn fused_attention(x: FloatTensor<Self>, shape: Arc<AttentionShape>) -> FloatTensor<Self>;
    fn fused_convolution(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        stride: usize,
        padding: usize,
    ) -> FloatTensor<Self>;
}

impl Fused for Flex {
    fn fused_gelu(x: FloatTensor<Self>) -> FloatTensor<Self> {
        if let (false, Some(numbers)) = (x.is_unique(), x.as_slice::<f32>()) {
            // Others hold these numbers, as the backward pass does in training: the results go to a place of their own.
            return tensor(kernels::gelu(numbers), &x);
        }
        change(x, kernels::gelu_in_place)
    }

    fn fused_linear(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let (x, weight, bias) = (ordered(x), ordered(weight), ordered(bias));
        let out = kernels::product(matrix(&x), matrix(&weight), Start::Row(slice(&bias)));
        let shape = [x.shape()[0], weight.shape()[1]];
        Flex::float_from_data(TensorData::new(out, shape), &x.device())
    }

    fn fused_norm(
        x: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        shift: FloatTensor<Self>,
        epsilon: f32,
    ) -> FloatTensor<Self> {
        let (x, scale, shift) = (ordered(x), ordered(scale), ordered(shift));
        let out = Norm {
            scale: slice(&scale),
            shift: slice(&shift),
            epsilon,
        }
        .forward(slice(&x));
        tensor(out, &x)
    }

    fn fused_residual(
        x: FloatTensor<Self>,
        part: FloatTensor<Self>,
        mask: Option<Arc<Mask>>,
    ) -> FloatTensor<Self> {
        let x = ordered(x);
        let part = match mask {
            Some(mask) => drop_of(part, &mask),
            None => part,
        };
        change(part, |part| {
            part.par_chunks_mut(PIECE)
                .zip(slice(&x).par_chunks(PIECE))
                .for_each(|(part, x)| part.iter_mut().zip(x).for_each(|(part, x)| *part += x));
        })
    }

    fn fused_attention(x: FloatTensor<Self>, shape: Arc<AttentionShape>) -> FloatTensor<Self> {
        let x = ordered(x);
        let Attended { out, .. } = shape.with(|attention| attention.forward(slice(&x)));
        attended(out, &shape, &x)
    }

    fn fused_convolution(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        stride: usize,
        padding: usize,
    ) -> FloatTensor<Self> {
        let (x, weight, bias) = (ordered(x), ordered(weight), ordered(bias));
        let shape = convolution_of(&x, &weight, stride, padding);
        let out = shape.forward(slice(&x), slice(&weight), slice(&bias));
        let [height, width] = shape.output();
        let shape = [x.shape()[0], shape.outputs, height, width];
        Flex::float_from_data(TensorData::new(out, shape), &x.device())
    }
}

/// The sizes of a convolution, from its input and its weights.
fn convolution_of(
    x: &FloatTensor<Flex>,
    weight: &FloatTensor<Flex>,
    stride: usize,
    padding: usize,
) -> kernels::Convolution {
    let (x, weight) = (x.shape(), weight.shape());
    kernels::Convolution {
        inputs: x[1],
        outputs: weight[0],
        size: [x[2], x[3]],
        kernel: weight[2],
        stride,
        padding,
    }
}

/// The output of an attention as a tensor.
fn attended(out: Vec<f32>, shape: &AttentionShape, x: &FloatTensor<Flex>) -> FloatTensor<Flex> {
    let width = shape.heads * shape.head_width;
    let rows = out.len() / width.max(1);
    Flex::float_from_data(TensorData::new(out, [rows, width]), &x.device())
}

/// Numbers as a tensor of the shape of another.
fn tensor(numbers: Vec<f32>, like: &FloatTensor<Flex>) -> FloatTensor<Flex> {
    Flex::float_from_data(TensorData::new(numbers, like.shape()), &like.device())
}

/// The same tensor with its numbers in order.
fn ordered(x: FloatTensor<Flex>) -> FloatTensor<Flex> {
    if x.is_contiguous() { x } else { x.to_contiguous() }
}

/// The numbers of a tensor that is in order.
fn slice(x: &FloatTensor<Flex>) -> &[f32] {
    x.as_slice().unwrap_or_default()
}

/// A tensor of two dimensions that is in order.
fn matrix(x: &FloatTensor<Flex>) -> Matrix<'_> {
    let shape = x.shape();
    Matrix::new(slice(x), shape[0], shape[1], shape[1])
}

/// Changes the numbers of a tensor where they are; they are copied only if others hold them or they are out of order.
fn change(mut tensor: FloatTensor<Flex>, work: impl FnOnce(&mut [f32])) -> FloatTensor<Flex> {
    if !tensor.is_contiguous() || !tensor.is_unique() {
        tensor = tensor.to_contiguous();
    }
    let start = tensor.layout().start_offset();
    let count = tensor.layout().num_elements();
    work(&mut tensor.storage_mut()[start..start + count]);
    tensor
}

fn drop_of(part: FloatTensor<Flex>, mask: &Mask) -> FloatTensor<Flex> {
    let width = part.shape()[1];
    change(part, |part| mask.drop_rows(part, width))
}

impl<C: CheckpointStrategy> Fused for Autodiff<Flex, C> {
    fn fused_gelu(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let prepared = GeluBackward
            .prepare::<C>([x.node()])
            .memory_bound()
            .retro_forward(GeluAgain { input: x.id() })
            .parents([&x])
            .stateful();
        match prepared {
            OpsKind::Tracked(mut prepared) => {
                let input = prepared.checkpoint(&x);
                prepared.finish(input, Flex::fused_gelu(x.into_primitive()))
            }
            OpsKind::UnTracked(prepared) => prepared.finish(Flex::fused_gelu(x.into_primitive())),
        }
    }

    fn fused_linear(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let prepared = LinearBackward
            .prepare::<C>([x.node(), weight.node(), bias.node()])
            .compute_bound()
            .stateful();
        let (x, weight, bias) = (
            ordered(x.into_primitive()),
            ordered(weight.into_primitive()),
            bias.into_primitive(),
        );
        match prepared {
            OpsKind::Tracked(prepared) => {
                let out = Flex::fused_linear(x.clone(), weight.clone(), bias);
                prepared.finish((x, weight), out)
            }
            OpsKind::UnTracked(prepared) => prepared.finish(Flex::fused_linear(x, weight, bias)),
        }
    }

    fn fused_norm(
        x: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        shift: FloatTensor<Self>,
        epsilon: f32,
    ) -> FloatTensor<Self> {
        let prepared = NormBackward
            .prepare::<C>([x.node(), scale.node(), shift.node()])
            .compute_bound()
            .stateful();
        let (x, scale) = (ordered(x.into_primitive()), ordered(scale.into_primitive()));
        let shift = ordered(shift.into_primitive());
        let out = Flex::fused_norm(x.clone(), scale.clone(), shift.clone(), epsilon);
        match prepared {
            OpsKind::Tracked(prepared) => prepared.finish((x, scale, shift, epsilon), out),
            OpsKind::UnTracked(prepared) => prepared.finish(out),
        }
    }

    fn fused_residual(
        x: FloatTensor<Self>,
        part: FloatTensor<Self>,
        mask: Option<Arc<Mask>>,
    ) -> FloatTensor<Self> {
        let prepared = ResidualBackward
            .prepare::<C>([x.node(), part.node()])
            .compute_bound()
            .stateful();
        let out = Flex::fused_residual(x.into_primitive(), part.into_primitive(), mask.clone());
        match prepared {
            OpsKind::Tracked(prepared) => prepared.finish(mask, out),
            OpsKind::UnTracked(prepared) => prepared.finish(out),
        }
    }

    fn fused_attention(x: FloatTensor<Self>, shape: Arc<AttentionShape>) -> FloatTensor<Self> {
        let prepared = AttentionBackward
            .prepare::<C>([x.node()])
            .compute_bound()
            .stateful();
        let x = ordered(x.into_primitive());
        match prepared {
            OpsKind::Tracked(prepared) => {
                let Attended { out, logarithms } = shape.with(|attention| attention.forward(slice(&x)));
                let out = attended(out, &shape, &x);
                let state = AttentionState {
                    x,
                    out: out.clone(),
                    logarithms: Arc::new(logarithms),
                    shape,
                };
                prepared.finish(state, out)
            }
            OpsKind::UnTracked(prepared) => prepared.finish(Flex::fused_attention(x, shape)),
        }
    }

    fn fused_convolution(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        stride: usize,
        padding: usize,
    ) -> FloatTensor<Self> {
        let prepared = ConvolutionBackward
            .prepare::<C>([x.node(), weight.node(), bias.node()])
            .compute_bound()
            .stateful();
        let (x, weight) = (ordered(x.into_primitive()), ordered(weight.into_primitive()));
        let out = Flex::fused_convolution(x.clone(), weight.clone(), bias.into_primitive(), stride, padding);
        match prepared {
            OpsKind::Tracked(prepared) => {
                let state = ConvolutionState {
                    shape: convolution_of(&x, &weight, stride, padding),
                    x,
                    weight,
                    out: out.clone(),
                };
                prepared.finish(state, out)
            }
            OpsKind::UnTracked(prepared) => prepared.finish(out),
        }
    }
}

#[derive(Debug)]
struct ConvolutionBackward;

#[derive(Debug, Clone)]
struct ConvolutionState {
    shape: kernels::Convolution,
    x: FloatTensor<Flex>,
    weight: FloatTensor<Flex>,
    out: FloatTensor<Flex>,
}

impl Backward<Flex, 3> for ConvolutionBackward {
    type State = ConvolutionState;

    fn backward(self, ops: Ops<ConvolutionState, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let ConvolutionState {
            shape,
            x,
            weight,
            out,
        } = ops.state;
        let grad = ordered(grads.consume::<Flex>(&ops.node));
        let [by_x, by_weight, by_bias] = ops.parents;
        let gradient = shape.gradient(
            slice(&x),
            slice(&weight),
            slice(&out),
            slice(&grad),
            by_x.is_some(),
        );
        if let (Some(node), Some(input)) = (by_x, gradient.input) {
            grads.register::<Flex>(node.id, tensor(input, &x));
        }
        if let Some(node) = by_weight {
            grads.register::<Flex>(node.id, tensor(gradient.weight, &weight));
        }
        if let Some(node) = by_bias {
            let bias = TensorData::new(gradient.bias, [shape.outputs]);
            grads.register::<Flex>(node.id, Flex::float_from_data(bias, &grad.device()));
        }
    }
}

#[derive(Debug)]
struct GeluBackward;

impl Backward<Flex, 1> for GeluBackward {
    /// The node whose output is x.
    type State = NodeId;

    fn backward(self, ops: Ops<NodeId, 1>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        let x = ordered(checkpointer.retrieve_node_output::<FloatTensor<Flex>>(ops.state));
        unary::<Flex, _>(ops.parents, ops.node, grads, |grad| {
            change(grad, |grad| kernels::gelu_gradient(grad, slice(&x)))
        });
    }
}

/// The forward pass once more, for a backward pass that recomputes instead of keeping.
#[derive(Debug)]
struct GeluAgain {
    input: NodeId,
}

impl RetroForward for GeluAgain {
    fn forward(&self, states: &mut BackwardStates, out_node: NodeId) {
        let x = states.get_state::<FloatTensor<Flex>>(&self.input);
        states.save(out_node, Flex::fused_gelu(x));
    }
}

#[derive(Debug)]
struct LinearBackward;

impl Backward<Flex, 3> for LinearBackward {
    /// x and the weight.
    type State = (FloatTensor<Flex>, FloatTensor<Flex>);

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (x, weight) = ops.state;
        let grad = ordered(grads.consume::<Flex>(&ops.node));
        let [by_x, by_weight, by_bias] = ops.parents;
        if let Some(node) = by_bias {
            let width = weight.shape()[1];
            let sum = kernels::sum_of_rows(slice(&grad), width);
            let sum = Flex::float_from_data(TensorData::new(sum, [width]), &grad.device());
            grads.register::<Flex>(node.id, sum);
        }
        if let Some(node) = by_weight {
            let out = kernels::product(matrix(&x).transposed(), matrix(&grad), Start::Zero);
            grads.register::<Flex>(node.id, tensor(out, &weight));
        }
        if let Some(node) = by_x {
            let out = kernels::product(matrix(&grad), matrix(&weight).transposed(), Start::Zero);
            grads.register::<Flex>(node.id, tensor(out, &x));
        }
    }
}

#[derive(Debug)]
struct NormBackward;

impl Backward<Flex, 3> for NormBackward {
    /// x, scale, shift and epsilon.
    type State = (FloatTensor<Flex>, FloatTensor<Flex>, FloatTensor<Flex>, f32);

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (x, scale, shift, epsilon) = ops.state;
        let grad = ordered(grads.consume::<Flex>(&ops.node));
        let norm = Norm {
            scale: slice(&scale),
            shift: slice(&shift),
            epsilon,
        };
        let gradient = norm.gradient(slice(&x), slice(&grad));
        let [by_x, by_scale, by_shift] = ops.parents;
        if let Some(node) = by_x {
            grads.register::<Flex>(node.id, tensor(gradient.input, &x));
        }
        if let Some(node) = by_scale {
            grads.register::<Flex>(node.id, tensor(gradient.scale, &scale));
        }
        if let Some(node) = by_shift {
            grads.register::<Flex>(node.id, tensor(gradient.shift, &shift));
        }
    }
}

#[derive(Debug)]
struct ResidualBackward;

impl Backward<Flex, 2> for ResidualBackward {
    type State = Option<Arc<Mask>>;

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<Flex>(&ops.node);
        let [by_x, by_part] = ops.parents;
        if let Some(node) = by_part {
            let grad = match &ops.state {
                Some(mask) => drop_of(grad.clone(), mask),
                None => grad.clone(),
            };
            grads.register::<Flex>(node.id, grad);
        }
        if let Some(node) = by_x {
            grads.register::<Flex>(node.id, grad);
        }
    }
}

#[derive(Debug)]
struct AttentionBackward;

#[derive(Debug, Clone)]
struct AttentionState {
    x: FloatTensor<Flex>,
    out: FloatTensor<Flex>,
    logarithms: Arc<Vec<f32>>,
    shape: Arc<AttentionShape>,
}

impl Backward<Flex, 1> for AttentionBackward {
    type State = AttentionState;

    fn backward(self, ops: Ops<AttentionState, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let AttentionState {
            x,
            out,
            logarithms,
            shape,
        } = ops.state;
        unary::<Flex, _>(ops.parents, ops.node, grads, |grad| {
            let grad = ordered(grad);
            let gradient =
                shape.with(|attention| attention.gradient(slice(&x), slice(&out), &logarithms, slice(&grad)));
            tensor(gradient, &x)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::backend::GradientCheckpointingStrategy;
    use burn::module::Param;

    /// -12 to 12; long enough that the work is split over threads, and not into equal pieces.
    fn grid() -> Vec<f32> {
        (-120_000..=120_000).map(|n| n as f32 * 1e-4).collect()
    }

    fn vector(numbers: &[f32], device: &Device) -> Tensor<1> {
        Tensor::from_data(TensorData::new(numbers.to_vec(), [numbers.len()]), device)
    }

    fn numbers<const D: usize>(x: Tensor<D>) -> Vec<f32> {
        x.into_data().try_into_vec().unwrap()
    }

    /// The gradient by x of the sum of weights times f(x).
    fn gradient_of<const D: usize>(
        f: impl Fn(Tensor<D>) -> Tensor<D>,
        x: Tensor<D>,
        weights: Tensor<D>,
    ) -> Vec<f32> {
        let x = x.require_grad();
        let grads = (f(x.clone()) * weights).sum().backward();
        numbers(x.grad(&grads).unwrap())
    }

    fn assert_close(got: &[f32], expected: &[f32], allowed: f32) {
        assert_eq!(got.len(), expected.len());
        for (nth, (got, expected)) in got.iter().zip(expected).enumerate() {
            assert!(
                (got - expected).abs() <= allowed,
                "number {nth} is {got}, not {expected}"
            );
        }
    }

    /// Against Burn's own GELU, which calls a scalar error function that is right to the last place.
    #[test]
    fn gelu_equals_the_scalar_one() {
        for device in [Device::flex(), Device::flex().autodiff()] {
            let ours = numbers(gelu(vector(&grid(), &device)));
            let theirs = numbers(activation::gelu(vector(&grid(), &device)));
            for ((x, ours), theirs) in grid().iter().zip(&ours).zip(&theirs) {
                // The rounding of 1 + erf in theirs and of the tail in ours, each a last place of 1 at most, times x.
                let allowed = 1.5e-7 * x.abs().max(0.5);
                assert!(
                    (ours - theirs).abs() <= allowed,
                    "gelu({x}) is {theirs}, not {ours}"
                );
            }
        }
    }

    #[test]
    fn the_gradient_equals_the_scalar_one() {
        let device = Device::flex().autodiff();
        let x = || vector(&grid(), &device);
        let weights = || x().cos();
        let ours = gradient_of(gelu, x(), weights());
        let theirs = gradient_of(activation::gelu, x(), weights());
        // Last places of 1 for Φ, x φ(x) and their sum, in ours and in theirs.
        assert_close(&ours, &theirs, 3e-7);
    }

    /// Against (f(x + h) - f(x - h)) / 2h of Burn's GELU in 64 bits.
    #[test]
    fn the_gradient_equals_differences() {
        let device = Device::flex();
        let x: Vec<f32> = (-1200..=1200).map(|n| n as f32 * 1e-2).collect();
        let h = 1e-4;
        let double = |shift: f64| -> Vec<f64> {
            let shifted: Vec<f64> = x.iter().map(|x| f64::from(*x) + shift).collect();
            let shifted = TensorData::new(shifted, [x.len()]);
            let shifted = Tensor::<1>::from_data(shifted, (&device, DType::F64));
            gelu(shifted).into_data().try_into_vec().unwrap()
        };
        let differences: Vec<f32> = double(h)
            .iter()
            .zip(double(-h))
            .map(|(above, below)| ((above - below) / (2.0 * h)) as f32)
            .collect();
        let device = device.autodiff();
        let ones = Tensor::ones([x.len()], &device);
        // As above; what the differences leave out, h²/6 of the third derivative, is a hundredth of it.
        assert_close(&gradient_of(gelu, vector(&x, &device), ones), &differences, 3e-7);
    }

    /// Where little of x is left, that little is right: against Burn's GELU in 64 bits.
    #[test]
    fn the_tail_keeps_its_digits() {
        let device = Device::flex();
        let x: Vec<f32> = (1..=6000).map(|n| n as f32 * -1e-3).collect();
        let double: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
        let double = Tensor::<1>::from_data(TensorData::new(double, [x.len()]), (&device, DType::F64));
        let expected: Vec<f64> = activation::gelu(double).into_data().try_into_vec().unwrap();
        for ((x, got), expected) in x.iter().zip(numbers(gelu(vector(&x, &device)))).zip(expected) {
            let error = (f64::from(got) / expected - 1.0).abs();
            // The tail's and the exponential's own, and the rounding of x² / 2, which the exponential takes as it is.
            let allowed = 7e-7 + 6e-8 * f64::from(0.5 * x * x);
            assert!(error <= allowed, "gelu({x}) is off by {error} of it");
        }
    }

    #[test]
    fn not_a_number_stays_so() {
        let x = [
            f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            0.0,
            f32::MAX,
            f32::MIN,
        ];
        for device in [Device::flex(), Device::flex().autodiff()] {
            let out = numbers(gelu(vector(&x, &device)));
            assert!(out[0].is_nan());
            assert!(out[1] == f32::INFINITY && out[3].to_bits() == 0, "{out:?}");
            assert_eq!(out[4..], [f32::MAX, 0.0]);
            // -infinity times zero: not a number, as in the reference, and never +infinity.
            assert!(out[2].is_nan(), "{out:?}");
        }
        // Burn's gradient is not a number at the infinities, which shows that this one was not called.
        let device = Device::flex().autodiff();
        let gradient = gradient_of(gelu, vector(&x, &device), Tensor::ones([x.len()], &device));
        assert!(gradient[0].is_nan());
        assert_eq!(gradient[1..], [1.0, 0.0, 0.5, 1.0, 0.0]);
        let mut gradient = [f32::NAN, f32::INFINITY];
        kernels::gelu_gradient(&mut gradient, &[0.0, 1.0]);
        assert!(gradient[0].is_nan() && gradient[1] == f32::INFINITY);
    }

    /// Views of a larger tensor: out of order, out of the middle, in order but not whole, repeated.
    #[test]
    fn views_are_right() {
        type View = fn(Tensor<2>) -> Tensor<2>;
        let views: [View; 5] = [
            |x| x.swap_dims(0, 1),
            |x| x.narrow(1, 2, 3),
            |x| x.narrow(0, 3, 5),
            |x| x.narrow(0, 0, 2),
            |x| x.narrow(0, 4, 1).expand([6, 7]),
        ];
        let device = Device::flex().autodiff();
        let spread: Vec<f32> = grid().into_iter().step_by(3700).take(63).collect();
        let whole = |device: &Device| vector(&spread, device).reshape([9, 7]);
        // The largest |x|, 12, times 1.5e-7.
        let allowed = 1.8e-6;
        for view in views {
            for device in [Device::flex(), device.clone()] {
                let expected = numbers(activation::gelu(view(whole(&device))));
                let kept = whole(&device);
                assert_close(&numbers(gelu(view(kept.clone()))), &expected, allowed);
                // A view must not have changed what it looks at.
                assert_eq!(numbers(kept), numbers(whole(&device)));
                assert_close(&numbers(gelu(view(whole(&device)))), &expected, allowed);
            }
            let shape = view(whole(&device)).shape();
            let weights = view(whole(&device)).sin().into_data();
            let gradient = |f: fn(Tensor<2>) -> Tensor<2>| {
                let x = whole(&device).require_grad();
                let weights = Tensor::<2>::from_data(weights.clone(), &device).reshape(shape.clone());
                let grads = (f(view(x.clone())) * weights).sum().backward();
                numbers(x.grad(&grads).unwrap())
            };
            // Six gradients, each within 3e-7, are summed where the view repeats.
            assert_close(&gradient(gelu), &gradient(activation::gelu), 1.8e-6);
            // A gradient that is itself out of order. The exponential of up to 12 makes it large and multiplies its
            // relative error by as much.
            let turned = |f: fn(Tensor<2>) -> Tensor<2>| {
                let x = whole(&device).require_grad();
                let y = f(view(x.clone()));
                let grads = (y.clone().swap_dims(0, 1).exp().sum() + y.sum()).backward();
                numbers(x.grad(&grads).unwrap())
            };
            let (ours, theirs) = (turned(gelu), turned(activation::gelu));
            for (ours, theirs) in ours.iter().zip(&theirs) {
                assert!(
                    (ours - theirs).abs() <= 1e-5 * theirs.abs().max(1.0),
                    "{ours} {theirs}"
                );
            }
        }
    }

    #[test]
    fn a_tensor_used_twice_sums_its_gradients() {
        let device = Device::flex().autodiff();
        let x = || vector(&grid()[60_000..180_000], &device);
        let twice = |f: fn(Tensor<1>) -> Tensor<1>| {
            move |x: Tensor<1>| f(x.clone()) * x.clone() + f(f(x.clone())) - x
        };
        let ours = gradient_of(twice(gelu), x(), x().cos());
        let theirs = gradient_of(twice(activation::gelu), x(), x().cos());
        // Three gradients, one of which is multiplied by an x of up to 6.
        assert_close(&ours, &theirs, 5e-6);
    }

    /// A backward pass that recomputes what it did not keep.
    #[test]
    fn recomputing_gives_the_same_bits() {
        let gradient = |strategy| {
            let device = Device::flex().autodiff();
            let x = vector(&grid()[100_000..101_000], &device).with_gradient_checkpointing_strategy(strategy);
            let x = x.require_grad();
            let grads = gelu(gelu(x.clone() * 2.0)).exp().sum().backward();
            numbers(x.grad(&grads).unwrap())
        };
        let kept = gradient(GradientCheckpointingStrategy::Disabled);
        assert_eq!(kept, gradient(GradientCheckpointingStrategy::Balanced));
        assert!(kept.iter().all(|x| *x != 0.0));
    }

    /// Numbers of a tensor that look random.
    fn matrix_of(rows: usize, columns: usize, seed: u64, device: &Device) -> Tensor<2> {
        let mut random = hark_work::random::Random::new(seed);
        let numbers: Vec<f32> = (0..rows * columns).map(|_| random.signed() as f32).collect();
        Tensor::from_data(TensorData::new(numbers, [rows, columns]), device)
    }

    fn vector_of(count: usize, seed: u64, device: &Device) -> Param<Tensor<1>> {
        Param::from_tensor(matrix_of(1, count, seed, device).reshape([count]))
    }

    /// The values of two ways to compute the same, and the gradients by all `inputs` of a weighted sum of them.
    fn assert_same(
        inputs: &[Tensor<2>],
        ours: impl Fn(&[Tensor<2>]) -> Tensor<2>,
        theirs: impl Fn(&[Tensor<2>]) -> Tensor<2>,
        allowed: f32,
    ) {
        let of = |f: &dyn Fn(&[Tensor<2>]) -> Tensor<2>| {
            let inputs: Vec<Tensor<2>> = inputs.iter().map(|x| x.clone().require_grad()).collect();
            let out = f(&inputs);
            let [rows, columns] = out.dims();
            let weights = matrix_of(rows, columns, 99, &out.device());
            let grads = (out.clone() * weights).sum().backward();
            let mut all = vec![numbers(out.inner())];
            all.extend(
                inputs
                    .iter()
                    .map(|x| x.grad(&grads).map(numbers).unwrap_or_default()),
            );
            all
        };
        for (ours, theirs) in of(&ours).iter().zip(of(&theirs)) {
            assert_close(ours, &theirs, allowed);
        }
    }

    #[test]
    fn a_linear_layer_equals_burns() {
        let device = Device::flex().autodiff();
        for (rows, input, output) in [(1, 1, 1), (5, 7, 3), (70, 130, 45), (40, 400, 20)] {
            let inputs = [
                matrix_of(rows, input, 1, &device),
                matrix_of(input, output, 2, &device),
                matrix_of(1, output, 3, &device),
            ];
            let layer = |x: &[Tensor<2>]| {
                let bias = Param::from_tensor(x[2].clone().reshape([output]));
                Linear::new(Param::from_tensor(x[1].clone()), Some(bias))
            };
            // Sums of up to 400 products of at most 1, each rounded.
            let composed = |x: &[Tensor<2>]| x[0].clone().matmul(x[1].clone()) + x[2].clone();
            let fused = |x: &[Tensor<2>]| {
                Tensor::from_dispatch(<Dispatch as Fused>::fused_linear(
                    x[0].clone().into_dispatch(),
                    x[1].clone().into_dispatch(),
                    x[2].clone().reshape([output]).into_dispatch(),
                ))
            };
            assert_same(&inputs, fused, composed, 3e-5);
            // And through the layer, as the towers call it, packed and not.
            let plain = [
                inputs[0].clone().inner(),
                inputs[1].clone().inner(),
                inputs[2].clone().inner(),
            ];
            let mut layer = layer(&plain);
            let whole = numbers(linear(plain[0].clone(), &layer));
            assert_close(&whole, &numbers(composed(&plain)), 3e-5);
            layer.pack(kernels::Precision::F32);
            assert_eq!(numbers(linear(plain[0].clone(), &layer)), whole);
        }
    }

    #[test]
    fn a_frozen_layer_gets_no_gradient() {
        let device = Device::flex().autodiff();
        let weight = Param::from_tensor(matrix_of(4, 3, 1, &device)).set_require_grad(false);
        let layer = Linear::new(weight, Some(vector_of(3, 2, &device)));
        let x = matrix_of(5, 4, 3, &device).require_grad();
        let grads = linear(x.clone(), &layer).sum().backward();
        assert!(layer.weight.val().grad(&grads).is_none());
        assert_eq!(numbers(layer.bias.unwrap().val().grad(&grads).unwrap()), [5.0; 3]);
        assert!(x.grad(&grads).is_some());
    }

    #[test]
    fn a_norm_equals_its_composed_form() {
        let device = Device::flex().autodiff();
        for (rows, width) in [(1, 2), (7, 33), (90, 128)] {
            let inputs = [
                matrix_of(rows, width, 1, &device),
                matrix_of(1, width, 2, &device),
                matrix_of(1, width, 3, &device),
            ];
            let epsilon = 1e-5;
            let fused = |x: &[Tensor<2>]| {
                Tensor::from_dispatch(<Dispatch as Fused>::fused_norm(
                    x[0].clone().into_dispatch(),
                    x[1].clone().reshape([width]).into_dispatch(),
                    x[2].clone().reshape([width]).into_dispatch(),
                    epsilon as f32,
                ))
            };
            let composed = |x: &[Tensor<2>]| {
                let centred = x[0].clone() - x[0].clone().mean_dim(1);
                let variance = centred.clone().powi_scalar(2).mean_dim(1);
                centred / variance.add_scalar(epsilon).sqrt() * x[1].clone() + x[2].clone()
            };
            assert_same(&inputs, fused, composed, 1e-4);
        }
    }

    #[test]
    fn a_residual_sum_equals_its_composed_form() {
        use crate::dropout::{Dropout, Site, Training};
        let device = Device::flex().autodiff();
        let rows: Arc<[usize]> = vec![3, 1, 5].into();
        let training = Training {
            seed: 4,
            examples: vec![8, 2, 5],
        };
        let dropout = Dropout {
            training: &training,
            hidden: 0.3,
            attention: 0.0,
        };
        let inputs = [matrix_of(9, 40, 1, &device), matrix_of(9, 40, 2, &device)];
        let mask = dropout.hidden(2, Site::FeedForward, &rows).unwrap();
        let fused = |x: &[Tensor<2>]| residual(x[0].clone(), x[1].clone(), Some(mask.clone()));
        assert_same(&inputs, fused, |x| x[0].clone() + mask.drop(x[1].clone()), 1e-6);
        let plain = |x: &[Tensor<2>]| residual(x[0].clone(), x[1].clone(), None);
        assert_same(&inputs, plain, |x| x[0].clone() + x[1].clone(), 1e-6);
        // A tensor that is added to itself.
        let twice = |x: &[Tensor<2>]| residual(x[0].clone(), x[0].clone(), None) + x[1].clone();
        assert_same(&inputs, twice, |x| x[0].clone() * 2.0 + x[1].clone(), 1e-6);
    }

    #[test]
    fn a_convolution_equals_burns() {
        let device = Device::flex().autodiff();
        for (items, inputs, outputs, height, width) in [(1, 1, 1, 3, 3), (5, 3, 4, 9, 14), (9, 16, 20, 8, 21)]
        {
            let sizes = [inputs * height * width, inputs * 9, outputs];
            let all = [
                matrix_of(items, sizes[0], 1, &device),
                matrix_of(outputs, sizes[1], 2, &device),
                matrix_of(1, outputs, 3, &device),
            ];
            let parts = |x: &[Tensor<2>]| {
                (
                    x[0].clone().reshape([items, inputs, height, width]),
                    x[1].clone().reshape([outputs, inputs, 3, 3]),
                    x[2].clone().reshape([outputs]),
                )
            };
            let flat = |x: Tensor<4>| {
                let count = x.dims().iter().skip(1).product();
                x.reshape([items, count])
            };
            let fused = |x: &[Tensor<2>]| {
                let (x, weight, bias) = parts(x);
                flat(convolution(x, weight, bias, 2, 1))
            };
            let composed = |x: &[Tensor<2>]| {
                let (x, weight, bias) = parts(x);
                let options = ConvOptions::new([2, 2], [1, 1], [1, 1], 1);
                flat(activation::relu(conv2d(x, weight, Some(bias), options)))
            };
            // Sums of up to 16 * 9 products, and for the weights over all places of 9 items.
            assert_same(&all, fused, composed, 3e-4);
        }
    }

    #[test]
    fn no_numbers_are_no_trouble() {
        let device = Device::flex().autodiff();
        assert!(numbers(gelu(vector(&[], &Device::flex()))).is_empty());
        assert!(gradient_of(gelu, vector(&[], &device), vector(&[], &device)).is_empty());
    }
}

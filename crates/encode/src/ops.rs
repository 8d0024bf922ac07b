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
use burn::module::Param;
use burn::tensor::module::{conv2d, layer_norm};
use burn::tensor::ops::ConvOptions;
use burn::tensor::{DType, Device, Tensor, TensorData, activation};
use hark_kernels as kernels;
use hark_kernels::{Attended, Matrix, Norm, Start};
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

/// Whether a library computes norm and attention as one operation each, where no gradients are recorded. Only libtorch, whose results
/// are as reliable as PyTorch's, is asked to.
#[cfg_attr(not(feature = "torch"), allow(unused_variables))]
pub(crate) fn has_own_inference<const D: usize>(x: &Tensor<D>) -> bool {
    #[cfg(feature = "torch")]
    return matches!(
        x.device().as_dispatch(),
        burn::backend::DispatchDevice::LibTorch(_)
    );
    #[cfg(not(feature = "torch"))]
    false
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
        return packed.product(x, layer.bias.as_ref().map(Param::val));
    }
    let weight = layer.weight.val();
    match &layer.bias {
        Some(bias) if is_ours(&x) => Tensor::from_dispatch(<Dispatch as Fused>::fused_linear(
            x.into_dispatch(),
            weight.into_dispatch(),
            bias.val().into_dispatch(),
        )),
        Some(bias) => layer.arithmetic().product(x, weight) + bias.val().unsqueeze(),
        None => layer.arithmetic().product(x, weight),
    }
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
    if has_own_inference(&x) {
        return layer_norm(x, norm.gamma.val(), Some(norm.beta.val()), norm.epsilon);
    }
    let mean = x.clone().mean_dim(1);
    #[cfg(feature = "ndarray")]
    let mean = if crate::fault::strikes() {
        mean.detach()
    } else {
        mean
    };
    let centred = x - mean;
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
    match x.as_slice() {
        Some(numbers) => numbers,
        None => unreachable!("the tensor was put in order"),
    }
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
mod tests;

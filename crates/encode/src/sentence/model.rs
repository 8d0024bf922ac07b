//! Token ids to caption vectors: the part of BERT and of MPNet that differs (names, embeddings, relative positions)
//! around the [transformer](crate::transformer) that they share.

use burn::module::{Module, Param};
use burn::nn::LayerNorm;
use burn::tensor::{Device, Int, Tensor, TensorData};

use super::folder::{Config, Family, Pooling, SentenceFolder};
use super::mpnet;
use crate::Error;
use crate::checkpoint::Checkpoint;
use crate::transformer::{Block, Transformer};

/// The network: token ids `[batch, tokens]` to vectors `[batch, width]`, not yet of length 1.
#[derive(Module, Debug)]
pub(super) struct Model {
    tokens: Param<Tensor<2>>,
    /// `[positions, width]`; with BERT the vector of token type 0 is added in, as every token of a single text has it.
    positions: Param<Tensor<2>>,
    norm: LayerNorm,
    /// `[buckets, heads]`.
    relative: Option<Param<Tensor<2>>>,
    transformer: Transformer,
    #[module(skip)]
    pooling: Pooling,
}

/// What the two families call the parts of their attention.
struct AttentionNames {
    query_key_value: [&'static str; 3],
    output: &'static str,
    norm: &'static str,
}

const BERT: AttentionNames = AttentionNames {
    query_key_value: [
        "attention.self.query",
        "attention.self.key",
        "attention.self.value",
    ],
    output: "attention.output.dense",
    norm: "attention.output.LayerNorm",
};

const MPNET: AttentionNames = AttentionNames {
    query_key_value: ["attention.attn.q", "attention.attn.k", "attention.attn.v"],
    output: "attention.attn.o",
    norm: "attention.LayerNorm",
};

/// What stands before the encoder's tensors: a model saved with a task's head on top has the family's name there.
pub(super) fn prefix(file: &Checkpoint) -> &'static str {
    let has_words = |prefix: &&str| file.contains(&format!("{prefix}embeddings.word_embeddings.weight"));
    ["", "bert.", "mpnet."].into_iter().find(has_words).unwrap_or("")
}

impl Model {
    pub(super) fn load(folder: &SentenceFolder, device: &Device) -> Result<Self, Error> {
        let path = folder.weights_path();
        let file = Checkpoint::open(&path)?;
        let prefix = prefix(&file);
        let model = Self::take(&file, prefix, folder, device)?;
        let unused = ["pooler.", "embeddings.position_ids"].map(|name| format!("{prefix}{name}"));
        file.finish(&[unused[0].as_str(), unused[1].as_str(), "cls.", "lm_head."])?;
        Ok(model)
    }

    fn take(
        file: &Checkpoint,
        prefix: &str,
        folder: &SentenceFolder,
        device: &Device,
    ) -> Result<Self, Error> {
        let config = &folder.config;
        let width = config.hidden_size;
        let embedding = |name: &str, rows: usize| {
            file.numbers(&format!("{prefix}embeddings.{name}.weight"), &[rows, width])
        };
        let tokens = embedding("word_embeddings", config.vocab_size)?;
        let mut positions = embedding("position_embeddings", config.max_position_embeddings)?;
        let mut relative = None;
        let names = match folder.family() {
            Family::Bert => {
                let types = embedding("token_type_embeddings", config.type_vocab_size)?;
                for row in positions.chunks_exact_mut(width) {
                    for (position, kind) in row.iter_mut().zip(&types) {
                        *position += kind;
                    }
                }
                &BERT
            }
            Family::Mpnet => {
                let name = format!("{prefix}encoder.relative_attention_bias.weight");
                let shape = [config.relative_attention_num_buckets, config.num_attention_heads];
                relative = Some(file.parameter(&name, shape, device)?);
                &MPNET
            }
        };
        let matrix = |numbers: Vec<f32>| {
            let rows = numbers.len() / width;
            Param::from_tensor(Tensor::from_data(TensorData::new(numbers, [rows, width]), device))
        };
        let block = |nth: usize| {
            take_block(
                file,
                &format!("{prefix}encoder.layer.{nth}"),
                names,
                config,
                device,
            )
        };
        let blocks = (0..config.num_hidden_layers)
            .map(block)
            .collect::<Result<Vec<_>, Error>>()?;
        Ok(Self {
            tokens: matrix(tokens),
            positions: matrix(positions),
            norm: file.layer_norm(
                &format!("{prefix}embeddings.LayerNorm"),
                width,
                config.layer_norm_eps,
                device,
            )?,
            relative,
            transformer: Transformer { blocks },
            pooling: folder.pooling(),
        })
    }

    /// Vectors `[batch, width]` of texts that all have `tokens` tokens; `ids` holds one text after the other.
    pub(super) fn forward(&self, ids: Vec<i32>, tokens: usize, device: &Device) -> Tensor<2> {
        let batch = ids.len() / tokens;
        let table = self.tokens.val();
        let [_, width] = table.dims();
        let positions: Vec<i32> = match self.relative {
            None => (0..batch).flat_map(|_| 0..tokens as i32).collect(),
            Some(_) => ids.chunks_exact(tokens).flat_map(mpnet::positions).collect(),
        };
        let rows =
            |ids: Vec<i32>| Tensor::<1, Int>::from_data(TensorData::new(ids, [batch * tokens]), device);
        let summed = table.select(0, rows(ids)) + self.positions.val().select(0, rows(positions));
        let x = self.norm.forward(summed.reshape([batch, tokens, width]));
        let bias = self.relative.as_ref().map(|table| {
            let [count, heads] = table.val().dims();
            let buckets = mpnet::buckets(tokens, count);
            let buckets = Tensor::<1, Int>::from_data(TensorData::new(buckets, [tokens * tokens]), device);
            let bias = table.val().select(0, buckets).reshape([1, tokens, tokens, heads]);
            bias.permute([0, 3, 1, 2])
        });
        let x = self.transformer.forward(x, bias.as_ref());
        match self.pooling {
            Pooling::Mean => x.mean_dim(1).reshape([batch, width]),
            Pooling::First => x.narrow(1, 0, 1).reshape([batch, width]),
        }
    }
}

fn take_block(
    file: &Checkpoint,
    at: &str,
    names: &AttentionNames,
    config: &Config,
    device: &Device,
) -> Result<Block, Error> {
    let (width, hidden, epsilon) = (
        config.hidden_size,
        config.intermediate_size,
        config.layer_norm_eps,
    );
    let name = |part: &str| format!("{at}.{part}");
    let [query, key, value] = names.query_key_value.map(name);
    Ok(Block {
        heads: config.num_attention_heads,
        query_key_value: file.linear(&[&query, &key, &value], width, width, device)?,
        attention_output: file.linear(&[&name(names.output)], width, width, device)?,
        attention_norm: file.layer_norm(&name(names.norm), width, epsilon, device)?,
        expand: file.linear(&[&name("intermediate.dense")], width, hidden, device)?,
        contract: file.linear(&[&name("output.dense")], hidden, width, device)?,
        output_norm: file.layer_norm(&name("output.LayerNorm"), width, epsilon, device)?,
    })
}

//! What the unit tests share.

use crate::{Device, Model, ModelConfig, Shape, SpecialIds};

/// A frozen model of 23 ids, small and far from uniform.
pub(crate) fn model(tied: bool) -> Model {
    let shape = Shape {
        vocab_size: 23,
        hidden_size: 16,
        intermediate_size: 24,
        initializer_range: 0.3,
        tied,
        ..Shape::default()
    };
    Model::create(ModelConfig::new(shape, SpecialIds::default()).unwrap(), 5, Device::CPU).unwrap()
}

/// The sizes of a model of 11 ids, the smallest with two layers and two query heads to a key head.
pub(crate) fn tiny(tied: bool) -> Shape {
    Shape {
        vocab_size: 11,
        hidden_size: 8,
        intermediate_size: 6,
        layers: 2,
        heads: 2,
        kv_heads: 1,
        tied,
        ..Shape::default()
    }
}

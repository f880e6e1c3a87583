//! A matrix of a layer, and what a low-rank adapter adds to it.

use tch::{Kind, Tensor};

use crate::error::Result;

/// A linear map `[in]` to `[out]`.
#[derive(Debug)]
pub(crate) struct Linear {
    /// `[out, in]`.
    pub(crate) weight: Tensor,
    /// `[out]`.
    pub(crate) bias: Option<Tensor>,
    adapter: Option<Adapter>,
}

/// See [`crate::lora`]. The targets that a matrix stacks have each an adapter of its own, or none.
#[derive(Debug)]
pub(crate) struct Adapter {
    /// The matrices down to the rank, stacked: `[targets r, in]`.
    pub(crate) down: Tensor,
    /// For each part of `out`: how many rows, and the matrix up `[rows, r]` where the part is a target.
    pub(crate) ups: Vec<(i64, Option<Tensor>)>,
    pub(crate) scale: f64,
}

impl Linear {
    pub(crate) fn new(weight: Tensor, bias: Option<Tensor>) -> Self {
        Self { weight, bias, adapter: None }
    }

    pub(crate) fn add_adapter(&mut self, adapter: Adapter) {
        self.adapter = Some(adapter);
    }

    /// `[N, in]` to `[N, out]`, in the type of `x`.
    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let kind = x.f_kind()?;
        let bias = self.bias.as_ref().map(|bias| converted(bias, kind)).transpose()?;
        let out = x.f_linear(&converted(&self.weight, kind)?, bias)?;
        match &self.adapter {
            Some(adapter) => Ok(out.f_add(&adapter.forward(x, kind)?)?),
            None => Ok(out),
        }
    }

    /// The weight with what the adapter adds, `[out, in]`, in f32 where there is one.
    pub(crate) fn merged(&self) -> Result<Tensor> {
        match &self.adapter {
            Some(adapter) => Ok(converted(&self.weight, Kind::Float)?.f_add(&adapter.product()?)?),
            None => Ok(self.weight.shallow_clone()),
        }
    }
}

impl Adapter {
    fn forward(&self, x: &Tensor, kind: Kind) -> Result<Tensor> {
        let low = x.f_linear(&converted(&self.down, kind)?, None::<&Tensor>)?.f_mul_scalar(self.scale)?;
        self.stacked(
            1,
            |up, start| {
                let (_, rank) = up.size2()?;
                Ok(low.f_narrow(1, start, rank)?.f_linear(&converted(up, kind)?, None::<&Tensor>)?)
            },
            |rows| Ok(Tensor::f_zeros([x.size()[0], rows], (kind, x.device()))?),
        )
    }

    /// `[out, in]`, in f32.
    fn product(&self) -> Result<Tensor> {
        let columns = self.down.size()[1];
        let product = self.stacked(
            0,
            |up, start| {
                let (_, rank) = up.size2()?;
                Ok(up.f_mm(&self.down.f_narrow(0, start, rank)?)?)
            },
            |rows| Ok(Tensor::f_zeros([rows, columns], (self.down.f_kind()?, self.down.device()))?),
        )?;
        Ok(product.f_to_kind(Kind::Float)?.f_mul_scalar(self.scale)?)
    }

    /// Parts along a dimension: of each target from its matrix up and where its matrix down begins, and the others.
    fn stacked(
        &self,
        dim: i64,
        of_target: impl Fn(&Tensor, i64) -> Result<Tensor>,
        of_none: impl Fn(i64) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let mut start = 0;
        let mut parts = Vec::with_capacity(self.ups.len());
        for (rows, up) in &self.ups {
            parts.push(match up {
                Some(up) => {
                    let part = of_target(up, start)?;
                    start += up.size()[1];
                    part
                }
                None => of_none(*rows)?,
            });
        }
        match parts.as_slice() {
            [one] => Ok(one.shallow_clone()),
            several => Ok(Tensor::f_cat(several, dim)?),
        }
    }
}

/// A tensor in a type of numbers; autograd goes through.
pub(crate) fn converted(tensor: &Tensor, kind: Kind) -> Result<Tensor> {
    if tensor.f_kind()? == kind { Ok(tensor.shallow_clone()) } else { Ok(tensor.f_to_kind(kind)?) }
}

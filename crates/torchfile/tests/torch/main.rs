//! Files of PyTorch: what `torch.save` writes is read to the last number, and what nobody should send is refused.

mod golden;
mod hostile;
mod make;
mod pickles;

//! Files of PyTorch: what `torch.save` writes is read to the last number, and what nobody should send is refused.

#![allow(unreachable_pub, reason = "modules that test binaries share")]

mod golden;
mod hostile;
mod make;
mod pickles;

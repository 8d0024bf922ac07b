//! File bytes in, waveform and log-mel out.

//! WAV files for tests.

use std::path::Path;

/// A 16-bit WAV file of one channel: a saw-tooth whose step is `seed`, so that files differ.
pub fn wav(rate: u32, samples: usize, seed: u32) -> Vec<u8> {
    let data = 2 * samples as u32;
    let mut bytes = b"RIFF".to_vec();
    bytes.extend((36 + data).to_le_bytes());
    bytes.extend(b"WAVEfmt ");
    bytes.extend(16_u32.to_le_bytes());
    bytes.extend(1_u16.to_le_bytes());
    bytes.extend(1_u16.to_le_bytes());
    bytes.extend(rate.to_le_bytes());
    bytes.extend((2 * rate).to_le_bytes());
    bytes.extend(2_u16.to_le_bytes());
    bytes.extend(16_u16.to_le_bytes());
    bytes.extend(b"data");
    bytes.extend(data.to_le_bytes());
    bytes.extend((0..samples as u32).flat_map(|i| (i.wrapping_mul(seed * 97 + 31) as u16).to_le_bytes()));
    bytes
}

/// Write a file and the folders above it.
pub fn put(path: &Path, bytes: impl AsRef<[u8]>) {
    if let Some(folder) = path.parent() {
        fs_err::create_dir_all(folder).unwrap();
    }
    fs_err::write(path, bytes).unwrap();
}

//! Decoded planes to one channel.
//!
//! In: a buffer of symphonia's. Out: the mean of all channels of each frame; and of samples, whether they are finite and how loud.

use symphonia::core::audio::conv::IntoSample;
use symphonia::core::audio::sample::Sample;
use symphonia::core::audio::{Audio, AudioBuffer, GenericAudioBufferRef};

/// The mean of all planes, summed in `f64`.
pub(crate) fn mix(buffer: &GenericAudioBufferRef<'_>, out: &mut Vec<f32>) {
    match buffer {
        GenericAudioBufferRef::U8(b) => mix_planes(b, out),
        GenericAudioBufferRef::U16(b) => mix_planes(b, out),
        GenericAudioBufferRef::U24(b) => mix_planes(b, out),
        GenericAudioBufferRef::U32(b) => mix_planes(b, out),
        GenericAudioBufferRef::S8(b) => mix_planes(b, out),
        GenericAudioBufferRef::S16(b) => mix_planes(b, out),
        GenericAudioBufferRef::S24(b) => mix_planes(b, out),
        GenericAudioBufferRef::S32(b) => mix_planes(b, out),
        GenericAudioBufferRef::F32(b) => mix_planes(b, out),
        GenericAudioBufferRef::F64(b) => mix_planes(b, out),
    }
}

fn mix_planes<S: Sample + IntoSample<f64>>(buffer: &AudioBuffer<S>, out: &mut Vec<f32>) {
    let planes: Vec<&[S]> = (0..buffer.num_planes()).filter_map(|i| buffer.plane(i)).collect();
    let wide = |s: S| IntoSample::<f64>::into_sample(s);
    // Nearly all files have one or two channels. Without a loop within the loop several frames are done at
    // once.
    match planes.as_slice() {
        [only] => out.extend(only.iter().map(|&s| wide(s) as f32)),
        [left, right] => {
            let pairs = left.iter().zip(*right);
            out.extend(pairs.map(|(&l, &r)| (0.5 * (wide(l) + wide(r))) as f32));
        }
        planes => {
            let count = planes.len().max(1) as f64;
            out.extend((0..buffer.frames()).map(|i| {
                let sum: f64 = planes.iter().filter_map(|p| p.get(i)).map(|&s| wide(s)).sum();
                (sum / count) as f32
            }));
        }
    }
}

/// Whether a sample is larger than `level` or not finite. The bits of floats without their sign are in the order of their values, and
/// those that are not finite come last.
pub(crate) fn exceeds(samples: &[f32], level: f32) -> bool {
    let most = level.to_bits();
    let above = samples
        .iter()
        .map(|s| u32::from(s.to_bits() & 0x7fff_ffff > most));
    above.fold(0, |any, this| any | this) != 0
}

/// Looks at all samples even if the first is amiss: without a way out in between, many are done at once.
pub(crate) fn all_finite(samples: &[f32]) -> bool {
    let bad = samples.iter().map(|s| u32::from(!s.is_finite()));
    bad.fold(0, |any, this| any | this) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use symphonia::core::audio::{AudioMut as _, AudioSpec, Channels};

    /// Against the mean by its formula; the order of the sum is the same, and so are all bits.
    #[test]
    fn one_two_and_more_planes_give_the_mean() {
        for planes in [1_usize, 2, 3, 6] {
            let spec = AudioSpec::new(48_000, Channels::Discrete(planes as u16));
            let mut buffer = AudioBuffer::<i32>::new(spec, 100);
            buffer.render_uninit(Some(37));
            let value = |plane: usize, i: usize| (i as i32 * 50_000_003).wrapping_mul(3 + plane as i32);
            for plane in 0..planes {
                for (i, sample) in buffer.plane_mut(plane).unwrap().iter_mut().enumerate() {
                    *sample = value(plane, i);
                }
            }
            let mut found = Vec::new();
            mix_planes(&buffer, &mut found);
            let wanted: Vec<f32> = (0..37)
                .map(|i| {
                    let sum: f64 = (0..planes)
                        .map(|p| f64::from(value(p, i)) / 2_147_483_648.0)
                        .sum();
                    (sum / planes as f64) as f32
                })
                .collect();
            assert_eq!(found, wanted, "{planes} planes");
        }
    }

    #[test]
    fn loud_samples_are_found() {
        for (sample, loud) in [
            (8.0, false),
            (-8.0, false),
            (8.001, true),
            (-9.0, true),
            (f32::NAN, true),
            (f32::NEG_INFINITY, true),
        ] {
            assert_eq!(exceeds(&[0.0, -0.0, sample, 1.0], 8.0), loud, "{sample}");
        }
    }

    #[test]
    fn one_number_that_is_not_finite_is_found_at_every_place() {
        let mut samples = [0.5_f32; 67];
        assert!(all_finite(&samples) && all_finite(&[]));
        for at in 0..samples.len() {
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                samples[at] = bad;
                assert!(!all_finite(&samples), "{at} {bad}");
                samples[at] = f32::MAX;
            }
        }
        assert!(all_finite(&samples));
    }
}

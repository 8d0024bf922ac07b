//! The directions in which a set of vectors lies: a basis of the leading eigenvectors of its second moments.
//!
//! In: vectors `[n, d]`. Out: an orthonormal basis `[k, d]` of the space of the k largest eigenvalues of M = VᵀV, by
//! subspace iteration: Q ← orthonormal(M Q) until it stands still. Only the space matters, as dot products do not depend
//! on the basis; so nothing is diagonalised.

use hark_nearest::{Vectors, exact};

use hark_work::random::Random;

/// More than enough for the 256 leading of 768 directions of caption vectors; each costs milliseconds.
const ROUNDS: usize = 40;

/// The basis `[k, d]`, `k <= d`.
pub(super) fn leading(
    vectors: Vectors<'_>,
    k: usize,
    random: &mut Random,
) -> Result<Vec<f32>, hark_nearest::Error> {
    let d = vectors.dim();
    let moments = {
        let transposed = transpose(vectors.as_slice(), d);
        let rows = Vectors::new(&transposed, vectors.rows())?;
        exact::products(rows, rows)?
    };
    let moments = Vectors::new(&moments, d)?;
    let mut basis: Vec<f32> = (0..k * d).map(|_| random.signed() as f32).collect();
    orthonormalise(&mut basis, d);
    for _ in 0..ROUNDS {
        // M is symmetric: the rows of `basis` times M are M times its columns.
        basis = exact::products(Vectors::new(&basis, d)?, moments)?;
        orthonormalise(&mut basis, d);
    }
    Ok(basis)
}

/// `[n, d]` to `[d, n]`.
pub(super) fn transpose(matrix: &[f32], d: usize) -> Vec<f32> {
    let n = matrix.len() / d;
    let mut transposed = vec![0.0; matrix.len()];
    for (row, values) in matrix.chunks_exact(d).enumerate() {
        for (column, &value) in values.iter().enumerate() {
            transposed[column * n + row] = value;
        }
    }
    transposed
}

/// Gram and Schmidt, in 64 bits and twice, which is enough to be orthogonal to working precision.
fn orthonormalise(basis: &mut [f32], d: usize) {
    for row in 0..basis.len() / d {
        let (before, rest) = basis.split_at_mut(row * d);
        let current = &mut rest[..d];
        for _ in 0..2 {
            for other in before.chunks_exact(d) {
                let along: f64 = other
                    .iter()
                    .zip(&*current)
                    .map(|(a, b)| f64::from(*a) * f64::from(*b))
                    .sum();
                for (x, y) in current.iter_mut().zip(other) {
                    *x = (f64::from(*x) - along * f64::from(*y)) as f32;
                }
            }
            let norm: f64 = current
                .iter()
                .map(|x| f64::from(*x) * f64::from(*x))
                .sum::<f64>()
                .sqrt();
            if norm > 0.0 {
                for x in current.iter_mut() {
                    *x = (f64::from(*x) / norm) as f32;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors in a plane of a space of five dimensions, and a little beside it.
    #[test]
    fn the_plane_is_found() {
        let mut random = Random::new(3);
        let (a, b) = ([0.5_f32, 0.5, 0.5, 0.5, 0.0], [0.5_f32, -0.5, 0.5, -0.5, 0.0]);
        let mut vectors = Vec::new();
        for _ in 0..200 {
            let (s, t) = (random.signed() as f32, random.signed() as f32);
            vectors.extend((0..5).map(|i| s * a[i] + t * b[i] + 1e-3 * random.signed() as f32));
        }
        let basis = leading(Vectors::new(&vectors, 5).unwrap(), 2, &mut random).unwrap();
        for direction in [a, b] {
            let inside: f32 = basis
                .chunks_exact(5)
                .map(|q| q.iter().zip(&direction).map(|(x, y)| x * y).sum::<f32>().powi(2))
                .sum();
            assert!((inside - 1.0).abs() < 1e-4, "{inside}");
        }
        let dot: f32 = (0..5).map(|i| basis[i] * basis[5 + i]).sum();
        assert!(dot.abs() < 1e-6);
    }
}

//! Fitting the vectors: the student's similarities to the teacher's, by gradient descent.
//!
//! For a batch of captions with student vectors u (unit, `[B, d]`) and teacher similarities H `[B, B]`:
//!
//! ```text
//! S = U Uᵀ
//! loss = 10 · mean over i ≠ j of w(H_ij) (S_ij − H_ij)²  +  0.3 · mean over i of (1 − u_i · t_i)
//! w(h) = 1 + 4 max(h, 0)²
//! ```
//!
//! The first part is what is wanted; near-duplicates weigh up to five times as much, because that is where relevance is
//! decided. The second pulls each vector to the teacher's own, t, in the leading directions: it fixes the rotation, so
//! that words which rarely meet still lie where the teacher has them. With x the sum before the norm, u = x / |x|:
//!
//! ```text
//! dloss/du_i = (40 / B(B−1)) Σ_j w(H_ij)(S_ij − H_ij) u_j  −  (0.3 / B) t_i
//! dloss/dx_i = (g − (g · u_i) u_i) / |x_i|,   g = dloss/du_i
//! ```
//!
//! and each unit of caption i gets dloss/dx_i. Adam moves the rows that a batch touches; its moments are kept for each row.

use std::collections::HashMap;

use hark_nearest::{Vectors, exact};

use super::subspace::transpose;

const SIMILARITY: f32 = 10.0;
const DIRECTION: f32 = 0.3;
const NEAR: f32 = 4.0;
const BETA: (f32, f32) = (0.9, 0.999);
const EPSILON: f32 = 1e-8;

/// The student while it learns: `[units + 1, dim]`, the bias last, with Adam's moments.
#[derive(Debug, Clone)]
pub(super) struct Student {
    pub(super) dim: usize,
    pub(super) rows: Vec<f32>,
    first: Vec<f32>,
    second: Vec<f32>,
    step: i32,
}

/// A batch: the units of each caption, its teacher vector, and that vector in the leading directions.
pub(super) struct Batch<'a> {
    pub(super) units: Vec<&'a [u32]>,
    /// `[B, teacher dim]`.
    pub(super) teacher: Vec<f32>,
    /// `[B, dim]`, unit.
    pub(super) targets: Vec<f32>,
}

/// Gradients of the rows that a batch touches.
struct Gradient {
    /// Row of the table to row of `values`, in the order of first use.
    slots: HashMap<u32, usize>,
    touched: Vec<u32>,
    values: Vec<f32>,
}

impl Student {
    pub(super) fn new(rows: Vec<f32>, dim: usize) -> Self {
        let zeros = vec![0.0; rows.len()];
        Self {
            dim,
            first: zeros.clone(),
            second: zeros,
            rows,
            step: 0,
        }
    }

    fn row(&self, row: u32) -> &[f32] {
        &self.rows[row as usize * self.dim..][..self.dim]
    }

    fn bias_row(&self) -> u32 {
        (self.rows.len() / self.dim - 1) as u32
    }

    /// Unit vectors `[B, dim]` and the lengths before.
    fn forward(&self, units: &[&[u32]]) -> (Vec<f32>, Vec<f32>) {
        let mut vectors = Vec::with_capacity(units.len() * self.dim);
        let mut lengths = Vec::with_capacity(units.len());
        for units in units {
            let start = vectors.len();
            vectors.extend_from_slice(self.row(self.bias_row()));
            let x = &mut vectors[start..];
            for &unit in *units {
                x.iter_mut().zip(self.row(unit)).for_each(|(x, y)| *x += y);
            }
            let length = x.iter().map(|x| x * x).sum::<f32>().sqrt().max(1e-6);
            for x in x.iter_mut() {
                *x /= length;
            }
            lengths.push(length);
        }
        (vectors, lengths)
    }

    /// The loss of a batch, and its gradient.
    fn gradient(&self, batch: &Batch<'_>) -> Result<(f32, Gradient), hark_nearest::Error> {
        let (size, dim) = (batch.units.len(), self.dim);
        let (vectors, lengths) = self.forward(&batch.units);
        let students = Vectors::new(&vectors, dim)?;
        let teachers = Vectors::new(&batch.teacher, batch.teacher.len() / size)?;
        let target = exact::products(teachers, teachers)?;
        let mut error = exact::products(students, students)?;
        let pairs = (size * (size - 1)) as f32;
        let mut loss = 0.0_f64;
        for (at, (s, &h)) in error.iter_mut().zip(&target).enumerate() {
            let difference = if at / size == at % size { 0.0 } else { *s - h };
            let weight = 1.0 + NEAR * h.max(0.0).powi(2);
            loss += f64::from(weight * difference * difference);
            *s = 4.0 * SIMILARITY / pairs * weight * difference;
        }
        loss *= f64::from(SIMILARITY / pairs);
        let transposed = transpose(&vectors, dim);
        let mut outer = exact::products(Vectors::new(&error, size)?, Vectors::new(&transposed, size)?)?;

        let mut gradient = Gradient {
            slots: HashMap::new(),
            touched: Vec::new(),
            values: Vec::new(),
        };
        let share = DIRECTION / size as f32;
        for nth in 0..size {
            let (u, t) = (&vectors[nth * dim..][..dim], &batch.targets[nth * dim..][..dim]);
            let g = &mut outer[nth * dim..][..dim];
            let mut along = 0.0;
            for ((g, u), t) in g.iter_mut().zip(u).zip(t) {
                loss += f64::from(-share * u * t);
                *g -= share * t;
                along += *g * u;
            }
            loss += f64::from(share);
            g.iter_mut()
                .zip(u)
                .for_each(|(g, u)| *g = (*g - along * u) / lengths[nth]);
            for &unit in batch.units[nth].iter().chain([&self.bias_row()]) {
                gradient.add(unit, g);
            }
        }
        Ok((loss as f32, gradient))
    }

    /// One step of Adam; gives the loss before it.
    pub(super) fn learn(&mut self, batch: &Batch<'_>, rate: f32) -> Result<f32, hark_nearest::Error> {
        let (loss, gradient) = self.gradient(batch)?;
        self.step += 1;
        let corrections = (1.0 - BETA.0.powi(self.step), 1.0 - BETA.1.powi(self.step));
        for (&row, g) in gradient
            .touched
            .iter()
            .zip(gradient.values.chunks_exact(self.dim))
        {
            let start = row as usize * self.dim;
            let rows = self.rows[start..]
                .iter_mut()
                .zip(&mut self.first[start..])
                .zip(&mut self.second[start..]);
            for (((x, m), v), g) in rows.zip(g) {
                *m = BETA.0 * *m + (1.0 - BETA.0) * g;
                *v = BETA.1 * *v + (1.0 - BETA.1) * g * g;
                *x -= rate * (*m / corrections.0) / ((*v / corrections.1).sqrt() + EPSILON);
            }
        }
        Ok(loss)
    }
}

impl Gradient {
    fn add(&mut self, row: u32, part: &[f32]) {
        let slot = *self.slots.entry(row).or_insert_with(|| {
            self.touched.push(row);
            self.values.resize(self.values.len() + part.len(), 0.0);
            self.touched.len() - 1
        });
        self.values[slot * part.len()..][..part.len()]
            .iter_mut()
            .zip(part)
            .for_each(|(x, y)| *x += y);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hark_work::random::Random;

    /// The gradient against differences of the loss, for every number of a small student.
    #[test]
    fn the_gradient_is_that_of_the_loss() {
        let mut random = Random::new(5);
        let (dim, rows) = (4, 6);
        let mut numbers = |count: usize| (0..count).map(|_| random.signed() as f32).collect::<Vec<f32>>();
        let student = Student::new(numbers(rows * dim), dim);
        let units: [&[u32]; 4] = [&[0, 1, 1], &[2], &[3, 4, 0], &[1, 4]];
        let unit = |mut vectors: Vec<f32>, dim: usize| {
            for vector in vectors.chunks_exact_mut(dim) {
                let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
                for x in vector.iter_mut() {
                    *x /= length;
                }
            }
            vectors
        };
        let batch = Batch {
            units: units.to_vec(),
            teacher: unit(numbers(4 * 7), 7),
            targets: unit(numbers(4 * dim), dim),
        };
        let (_, gradient) = student.gradient(&batch).unwrap();
        assert_eq!(gradient.touched.len(), rows, "all rows, the bias included");
        let step = 1e-2;
        for (&row, values) in gradient.touched.iter().zip(gradient.values.chunks_exact(dim)) {
            for (column, &got) in values.iter().enumerate() {
                let at = |difference: f32| {
                    let mut moved = student.clone();
                    moved.rows[row as usize * dim + column] += difference;
                    f64::from(moved.gradient(&batch).unwrap().0)
                };
                // Central differences of fourth order: the error is far below the rounding of the loss.
                let by_two = at(2.0 * step) - at(-2.0 * step);
                let expected = (8.0 * (at(step) - at(-step)) - by_two) / f64::from(12.0 * step);
                assert!(
                    (f64::from(got) - expected).abs() < 2e-3 * expected.abs().max(1.0),
                    "row {row}: {got} and {expected}"
                );
            }
        }
    }

    #[test]
    fn learning_lowers_the_loss() {
        let mut student = Student::new(vec![0.3, -0.2, 0.1, 0.9, 0.4, -0.6, 0.0, 0.1], 2);
        let batch = Batch {
            units: vec![&[0], &[1, 2], &[2]],
            teacher: vec![1.0, 0.0, 0.6, 0.8, 0.0, 1.0],
            targets: vec![1.0, 0.0, 0.6, 0.8, 0.0, 1.0],
        };
        let first = student.learn(&batch, 0.02).unwrap();
        let mut last = first;
        for _ in 0..300 {
            last = student.learn(&batch, 0.02).unwrap();
        }
        assert!(last < 0.05 * first, "{first} to {last}");
    }
}

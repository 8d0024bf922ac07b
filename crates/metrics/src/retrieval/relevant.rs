//! Which items are relevant to each query.

use crate::Error;

/// For every query its relevant items: at least one, each named once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relevant {
    items: usize,
    /// Where the list of each query starts in `indices`, and the end of the last.
    starts: Vec<usize>,
    /// Ascending within each query.
    indices: Vec<u32>,
}

impl Relevant {
    /// One list of item numbers (from 0) for each query, in the order of the queries' vectors; `items` is the
    /// number of items in all.
    ///
    /// ```
    /// use hark_metrics::Relevant;
    ///
    /// // Two captions of clip 0 and one of clip 1: text to audio, and back.
    /// let clips = Relevant::new([[0], [0], [1]], 2)?;
    /// let captions = clips.reversed()?;
    /// assert_eq!(captions.of(0), [0, 1]);
    /// # Ok::<(), hark_metrics::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NoRelevant`], [`Error::NoSuchItem`] and [`Error::DuplicateRelevant`], for the first query
    /// that has such a fault.
    pub fn new(
        lists: impl IntoIterator<Item = impl IntoIterator<Item = u32>>,
        items: usize,
    ) -> Result<Self, Error> {
        let (mut starts, mut indices) = (vec![0], Vec::new());
        for (query, list) in lists.into_iter().enumerate() {
            let start = indices.len();
            indices.extend(list);
            let list = &mut indices[start..];
            list.sort_unstable();
            match *list {
                [] => return Err(Error::NoRelevant { query }),
                [.., item] if item as usize >= items => {
                    return Err(Error::NoSuchItem { query, item, items });
                }
                _ => {}
            }
            if let Some(pair) = list.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(Error::DuplicateRelevant { query, item: pair[0] });
            }
            starts.push(indices.len());
        }
        Ok(Self {
            items,
            starts,
            indices,
        })
    }

    /// Number of queries.
    pub fn queries(&self) -> usize {
        self.starts.len() - 1
    }

    /// Number of items, relevant to any query or not.
    pub fn items(&self) -> usize {
        self.items
    }

    /// The relevant items of one query, ascending.
    ///
    /// # Panics
    ///
    /// When `query` is not below [`Relevant::queries`], as indexing a slice does.
    pub fn of(&self, query: usize) -> &[u32] {
        &self.indices[self.starts[query]..self.starts[query + 1]]
    }

    /// The other direction: for every item the queries that it is relevant to.
    ///
    /// # Errors
    ///
    /// [`Error::NoRelevant`] for the first item that is relevant to no query: as a query it would have no
    /// relevant item. [`hark_nearest::Error::TooManyRows`] for more queries than 32-bit ids can name.
    pub fn reversed(&self) -> Result<Self, Error> {
        let limit = u32::MAX as usize;
        if self.queries() > limit {
            return Err(hark_nearest::Error::TooManyRows {
                rows: self.queries(),
                limit,
            }
            .into());
        }
        let mut starts = vec![0; self.items + 1];
        for &item in &self.indices {
            starts[item as usize + 1] += 1;
        }
        if let Some(query) = starts[1..].iter().position(|&count| count == 0) {
            return Err(Error::NoRelevant { query });
        }
        for item in 0..self.items {
            starts[item + 1] += starts[item];
        }
        let (mut next, mut indices) = (starts.clone(), vec![0; self.indices.len()]);
        for query in 0..self.queries() {
            for &item in self.of(query) {
                indices[next[item as usize]] = query as u32;
                next[item as usize] += 1;
            }
        }
        Ok(Self {
            items: self.queries(),
            starts,
            indices,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_named_with_their_query() {
        let refused = |lists: &[&[u32]]| {
            Relevant::new(lists.iter().map(|list| list.iter().copied()), 3).map(|relevant| relevant.queries())
        };
        assert_eq!(refused(&[&[2], &[]]), Err(Error::NoRelevant { query: 1 }));
        assert_eq!(
            refused(&[&[2], &[0, 3]]),
            Err(Error::NoSuchItem {
                query: 1,
                item: 3,
                items: 3
            })
        );
        assert_eq!(
            refused(&[&[2, 1, 2]]),
            Err(Error::DuplicateRelevant { query: 0, item: 2 })
        );
        assert_eq!(refused(&[]), Ok(0));
    }

    #[test]
    fn the_other_direction_has_the_same_pairs() {
        let relevant = Relevant::new([vec![2, 0], vec![1], vec![0, 1, 2]], 3).unwrap();
        let reversed = relevant.reversed().unwrap();
        assert_eq!((reversed.queries(), reversed.items()), (3, 3));
        assert_eq!(
            [reversed.of(0), reversed.of(1), reversed.of(2)],
            [&[0, 2][..], &[1, 2], &[0, 2]]
        );
        assert_eq!(reversed.reversed().unwrap(), relevant);
    }

    #[test]
    fn an_item_without_a_query_cannot_become_a_query() {
        let relevant = Relevant::new([[0], [2]], 3).unwrap();
        assert_eq!(relevant.reversed(), Err(Error::NoRelevant { query: 1 }));
    }
}

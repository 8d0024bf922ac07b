//! Builds the vector index, and checks consistency.
//!
//! The first [`optimize`] of a library that is large enough builds the index; from then on the server maintains it. Others may write
//! meanwhile; if several processes optimize at once, one builds and the others return. An aborted build leaves an invalid index that
//! the server ignores; the next one drops it.

use hark_work::progress::Progress;
use std::sync::mpsc;
use std::time::Duration;

use postgres::CancelToken;

use super::pool::{Failed, Pool, Purpose, Session};
use super::schema::{WIDEST_INDEXED, quoted};
use super::sql;
use crate::Error;

/// With fewer windows, comparing them all takes no time.
const WORTHWHILE: u64 = 2_000;
/// How often a build is asked how far it is.
const LOOK: Duration = Duration::from_millis(250);

/// Where things are.
pub(super) struct Scene<'a> {
    pub pool: &'a Pool,
    pub schema: &'a str,
    pub vector_schema: &'a str,
    pub dim: usize,
}

/// The state of the index of vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Index {
    Absent,
    Ready,
    /// Somebody is at it.
    Growing,
    /// Whoever built it has died.
    Broken,
}

/// Builds the index if it is worthwhile and there is none; renews what the server knows for planning.
pub(super) fn optimize(scene: &Scene<'_>, progress: Progress<'_>) -> Result<(), Error> {
    let total = scene.pool.run(Purpose::Read, |session| {
        Ok(session.one(sql::TOTALS, &[])?.try_get::<_, i64>(1)? as u64)
    })?;
    if progress(0, total).is_break() {
        return Err(Error::Stopped { done: 0, total });
    }
    scene.pool.run(Purpose::Write, |session| {
        // Held until the end, on a connection of its own: two that build stand in each other's way.
        if session.query(sql::TIDYING, &[])?.is_empty() {
            return Ok(());
        }
        // A build waits for all who still look at an older state, as the row above does until something else is said here.
        session.batch("SET LOCAL idle_in_transaction_session_timeout = 0")?;
        if total >= WORTHWHILE && scene.dim <= WIDEST_INDEXED {
            index_all(scene, total, progress)?;
        }
        scene
            .pool
            .run_alone(&sql::analyze(&quoted(scene.schema)), |_| ())?;
        _ = progress(total, total);
        Ok(())
    })
}

/// Sees to it that there is an index of vectors.
fn index_all(scene: &Scene<'_>, total: u64, progress: Progress<'_>) -> Result<(), Error> {
    match index(scene)? {
        // If it grows, an administrator is at it.
        Index::Ready | Index::Growing => return Ok(()),
        Index::Broken => scene
            .pool
            .run_alone(&sql::drop_index(&quoted(scene.schema)), |_| ())?,
        Index::Absent => {}
    }
    build(scene, total, progress)
}

fn index(scene: &Scene<'_>) -> Result<Index, Error> {
    scene.pool.run(Purpose::Search, |session| {
        let rows = session.query(sql::INDEX, &[&scene.schema])?;
        let Some(row) = rows.first() else {
            return Ok(Index::Absent);
        };
        Ok(match (row.try_get(0)?, row.try_get(1)?) {
            (true, _) => Index::Ready,
            (false, true) => Index::Growing,
            (false, false) => Index::Broken,
        })
    })
}

/// Builds on one connection and looks on from another.
fn build(scene: &Scene<'_>, total: u64, progress: Progress<'_>) -> Result<(), Error> {
    let statement = sql::create_index(&quoted(scene.schema), &quoted(scene.vector_schema));
    let (begun, begin) = mpsc::channel::<CancelToken>();
    let (done, end) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let result = scene.pool.run_alone(&statement, |token| _ = begun.send(token));
            _ = done.send(result);
        });
        let token = begin.recv().ok();
        let mut stopped = None;
        loop {
            match end.recv_timeout(LOOK) {
                Ok(result) => {
                    return match stopped {
                        Some(done) if result.is_err() => {
                            scene
                                .pool
                                .run_alone(&sql::drop_index(&quoted(scene.schema)), |_| ())?;
                            Err(Error::Stopped { done, total })
                        }
                        _ => result,
                    };
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                // The thread says how it ended unless it panicked, which the scope then passes on.
                Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
            }
            let grown = grown(scene).unwrap_or_default().min(total);
            if stopped.is_none() && progress(grown, total).is_break() {
                stopped = Some(grown);
                if let Some(token) = &token {
                    // If this fails the build goes on to its end, and what was asked for comes late.
                    _ = token.cancel_query(scene.pool.address().tls());
                }
            }
        }
    })
}

fn grown(scene: &Scene<'_>) -> Result<u64, Error> {
    scene.pool.run(Purpose::Search, |session| {
        let rows = session.query(sql::INDEX_PROGRESS, &[&scene.schema])?;
        Ok(rows
            .first()
            .map(|row| row.try_get::<_, i64>(0))
            .transpose()?
            .unwrap_or_default() as u64)
    })
}

/// Sentences about what contradicts itself.
pub(super) fn check(scene: &Scene<'_>) -> Result<Vec<String>, Error> {
    let mut faults = scene.pool.run(Purpose::Read, |session: &mut Session<'_>| {
        let mut faults: Vec<String> = Vec::new();
        for sql in sql::CHECKS {
            for row in session.query(sql, &[])? {
                faults.push(row.try_get(0)?);
            }
        }
        Ok::<_, Failed>(faults)
    })?;
    if index(scene)? == Index::Broken {
        faults.push(
            "the index of vectors was not finished; it is not used until the library is tidied".to_owned(),
        );
    }
    Ok(faults)
}

//! Connections to the server, and retries.
//!
//! Work comes in as a function over a [`Session`], which is one transaction. It is repeated from the beginning when
//!
//! - the server could not serialize it with other transactions (serialization failures, deadlocks), or
//! - the connection was lost: a crash or restart of the server, or the network.
//!
//! In the second case the commit may have succeeded although its acknowledgement was lost, so all work must be idempotent. The number
//! of retries is bounded; every other failure is an error at once.

use std::collections::HashMap;
use std::error::Error as _;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use postgres::error::SqlState;
use postgres::types::ToSql;
use postgres::{CancelToken, Client, IsolationLevel, Row, Statement, Transaction};

use super::address::Address;
use crate::Error;

/// Connections at one time.
const MAX: usize = 8;
/// How often work is begun whose transaction could not be ordered among others.
const TRIES_ORDER: u32 = 20;
/// How long work is begun again whose connection was lost: a restart with recovery, or a failover, takes less.
const PATIENCE: Duration = Duration::from_secs(45);
/// The longest pause before a lost connection is made anew.
const PAUSE: Duration = Duration::from_secs(2);
/// How long a caller waits for one of the connections.
const QUEUE: Duration = Duration::from_mins(1);

/// What a transaction is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To change something.
    Write,
    /// To read, however long it takes, all from one moment's state.
    Read,
    /// To answer a person who waits: given up after [`SEARCH_SECONDS`].
    Search,
}

/// Longest time of a statement of a search.
pub(super) const SEARCH_SECONDS: u32 = 30;

/// Why a transaction was not completed.
pub(super) enum Failed {
    /// The server or the way to it.
    Server(postgres::Error),
    /// What is asked for makes no sense, or what was found.
    Ours(Error),
}

impl From<postgres::Error> for Failed {
    fn from(error: postgres::Error) -> Self {
        Self::Server(error)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Ours(error)
    }
}

/// A connection with the statements that it has prepared.
struct Connection {
    client: Client,
    statements: HashMap<&'static str, Statement>,
}

/// One transaction.
pub(super) struct Session<'a> {
    transaction: Transaction<'a>,
    statements: &'a mut HashMap<&'static str, Statement>,
}

impl Session<'_> {
    fn prepared(&mut self, sql: &'static str) -> Result<Statement, postgres::Error> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.transaction.prepare(sql)?;
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }

    /// Rows of a statement that is prepared once a connection.
    pub(super) fn query(
        &mut self,
        sql: &'static str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, postgres::Error> {
        let statement = self.prepared(sql)?;
        self.transaction.query(&statement, values)
    }

    /// The row of such a statement that always has one.
    pub(super) fn one(
        &mut self,
        sql: &'static str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Row, postgres::Error> {
        let statement = self.prepared(sql)?;
        self.transaction.query_one(&statement, values)
    }

    /// The number of rows that such a statement has changed.
    pub(super) fn execute(
        &mut self,
        sql: &'static str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, postgres::Error> {
        let statement = self.prepared(sql)?;
        self.transaction.execute(&statement, values)
    }

    /// Rows of a statement that is put together for one question: it is planned with the values at hand.
    pub(super) fn query_once(
        &mut self,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, postgres::Error> {
        self.transaction.query(sql, values)
    }

    /// Statements without values, one after the other.
    pub(super) fn batch(&mut self, sql: &str) -> Result<(), postgres::Error> {
        self.transaction.batch_execute(sql)
    }
}

/// The connections to one server, at most [`MAX`].
pub(super) struct Pool {
    address: Address,
    /// Said at the beginning of each transaction: where names are looked up.
    search_path: String,
    patience: Duration,
    state: Mutex<State>,
    free: Condvar,
}

#[derive(Default)]
struct State {
    idle: Vec<Connection>,
    /// Those in use, and those being made.
    busy: usize,
}

impl Pool {
    pub(super) fn new(address: Address) -> Self {
        Self {
            address,
            search_path: String::new(),
            patience: PATIENCE,
            state: Mutex::default(),
            free: Condvar::new(),
        }
    }

    /// Names are looked up in these schemas from now on.
    pub(super) fn look_in(&mut self, schemas: &[&str]) {
        let quoted: Vec<String> = schemas
            .iter()
            .map(|schema| super::schema::quoted(schema))
            .collect();
        self.search_path = format!("SET LOCAL search_path = {};", quoted.join(", "));
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// Runs work in one transaction, again if need be, and commits it.
    pub(super) fn run<T>(
        &self,
        purpose: Purpose,
        mut work: impl FnMut(&mut Session<'_>) -> Result<T, Failed>,
    ) -> Result<T, Error> {
        let (mut unordered, mut lost) = (0, 0);
        let mut since = None;
        loop {
            let mut place = self.enter()?;
            let result = place
                .connection()
                .and_then(|connection| attempt(connection, purpose, &self.search_path, &mut work));
            let error = match result {
                Ok(value) => return Ok(value),
                Err(Failed::Ours(error)) => return Err(error),
                Err(Failed::Server(error)) => error,
            };
            match fate(&error) {
                Fate::Unordered => {
                    unordered += 1;
                    if unordered == TRIES_ORDER {
                        return Err(self.explained(error));
                    }
                    drop(place);
                    std::thread::sleep(Duration::from_millis(5) * unordered);
                }
                Fate::Lost => {
                    lost += 1;
                    place.discard();
                    self.forget_idle();
                    if since.get_or_insert_with(Instant::now).elapsed() > self.patience {
                        return Err(Error::Lost {
                            server: self.address.name().to_owned(),
                            tries: lost,
                            what: message(&error),
                            source: Box::new(error),
                        });
                    }
                    std::thread::sleep((Duration::from_millis(50) * (1 << lost.min(10))).min(PAUSE));
                }
                Fate::Final => return Err(self.explained(error)),
            }
        }
    }

    /// Makes one connection. A server that is not there is told at once: the address may be wrong.
    pub(super) fn greet(&self) -> Result<(), Error> {
        let mut place = self.enter()?;
        match place.connection() {
            Ok(_) => Ok(()),
            Err(Failed::Ours(error)) => Err(error),
            // Starting up, shutting down or full: it is the right one.
            Err(Failed::Server(error)) if error.code().is_some() && fate(&error) == Fate::Lost => Ok(()),
            Err(Failed::Server(error)) => Err(self.explained(error)),
        }
    }

    /// Runs a statement outside of a transaction, once. `begun` is handed what can stop it.
    pub(super) fn run_alone(&self, sql: &str, begun: impl FnOnce(CancelToken)) -> Result<(), Error> {
        let mut place = self.enter()?;
        let result = place.connection().and_then(|connection| {
            begun(connection.client.cancel_token());
            connection.client.batch_execute(sql).map_err(Failed::Server)
        });
        result.map_err(|failed| match failed {
            Failed::Ours(error) => error,
            Failed::Server(error) => {
                if fate(&error) == Fate::Lost {
                    place.discard();
                }
                self.explained(error)
            }
        })
    }

    /// An error of the server's as one of ours.
    pub(super) fn explained(&self, error: postgres::Error) -> Error {
        let server = self.address.name().to_owned();
        match error.code() {
            Some(code) if *code == SqlState::QUERY_CANCELED => Error::Slow {
                server,
                seconds: SEARCH_SECONDS,
            },
            _ => Error::Server {
                server,
                what: message(&error),
                source: Box::new(error),
            },
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until one more connection may be used.
    fn enter(&self) -> Result<Place<'_>, Error> {
        let (mut state, waited) = self
            .free
            .wait_timeout_while(self.lock(), QUEUE, |state| state.busy >= MAX)
            .unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() && state.busy >= MAX {
            return Err(Error::Busy {
                server: self.address.name().to_owned(),
                seconds: QUEUE.as_secs(),
            });
        }
        state.busy += 1;
        let connection = loop {
            match state.idle.pop() {
                Some(connection) if connection.client.is_closed() => {}
                other => break other,
            }
        };
        Ok(Place {
            pool: self,
            connection,
        })
    }

    /// Where one connection is lost, the others are: each would be found out at the cost of one try.
    fn forget_idle(&self) {
        let idle = std::mem::take(&mut self.lock().idle);
        drop(idle);
    }
}

/// The right to use one connection. Goes back to the pool when it is dropped.
struct Place<'a> {
    pool: &'a Pool,
    connection: Option<Connection>,
}

impl Place<'_> {
    fn connection(&mut self) -> Result<&mut Connection, Failed> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection {
                client: self.pool.address.connect()?,
                statements: HashMap::new(),
            },
        };
        Ok(self.connection.insert(connection))
    }

    fn discard(&mut self) {
        self.connection = None;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let connection = self
            .connection
            .take()
            .filter(|connection| !connection.client.is_closed());
        let mut state = self.pool.lock();
        state.busy -= 1;
        state.idle.extend(connection);
        drop(state);
        self.pool.free.notify_one();
    }
}

fn attempt<T>(
    connection: &mut Connection,
    purpose: Purpose,
    search_path: &str,
    work: &mut impl FnMut(&mut Session<'_>) -> Result<T, Failed>,
) -> Result<T, Failed> {
    let builder = connection.client.build_transaction();
    let builder = match purpose {
        Purpose::Write => builder
            .isolation_level(IsolationLevel::ReadCommitted)
            .read_only(false),
        Purpose::Read | Purpose::Search => builder
            .isolation_level(IsolationLevel::RepeatableRead)
            .read_only(true),
    };
    let mut session = Session {
        transaction: builder.start()?,
        statements: &mut connection.statements,
    };
    let seconds = if purpose == Purpose::Search {
        SEARCH_SECONDS
    } else {
        0
    };
    session.batch(&format!(
        "{search_path} SET LOCAL statement_timeout = '{seconds}s'"
    ))?;
    let value = work(&mut session)?;
    session.transaction.commit()?;
    Ok(value)
}

/// What follows from an error.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    /// The same again may succeed: others were in the way.
    Unordered,
    /// The connection is of no more use; another one may be.
    Lost,
    /// The same again would fail again.
    Final,
}

fn fate(error: &postgres::Error) -> Fate {
    if let Some(code) = error.code() {
        return fate_of_code(code);
    }
    if error.is_closed() {
        return Fate::Lost;
    }
    let source = error
        .source()
        .and_then(|source| source.downcast_ref::<std::io::Error>());
    match source {
        // What TLS refuses, such as a certificate, arrives as these kinds, and is refused again the next time.
        Some(io)
            if matches!(
                io.kind(),
                std::io::ErrorKind::InvalidData | std::io::ErrorKind::InvalidInput
            ) =>
        {
            Fate::Final
        }
        Some(_) => Fate::Lost,
        None => Fate::Final,
    }
}

fn fate_of_code(code: &SqlState) -> Fate {
    match code.code() {
        // Serialisation failure, deadlock; or two that create the same thing at the same moment: the second finds it made.
        "40001" | "40P01" | "42P06" | "42P07" | "42710" | "23505" => Fate::Unordered,
        // Shut down by an administrator, crashed, starting up, too many connections.
        "57P01" | "57P02" | "57P03" | "53300" => Fate::Lost,
        other if other.starts_with("08") => Fate::Lost,
        _ => Fate::Final,
    }
}

/// What the server says, or else what is wrong with the way to it, down to the last reason.
fn message(error: &postgres::Error) -> String {
    if let Some(db) = error.as_db_error() {
        return match db.detail() {
            Some(detail) => format!("{} ({detail})", db.message()),
            None => db.message().to_owned(),
        };
    }
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_stays_away_is_named_and_the_password_is_not() {
        // A port that was free a moment ago, and where nobody listens.
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|one| one.local_addr())
            .map_or(1, |one| one.port());
        let address = Address::parse(&format!("postgres://hark:s3cret@127.0.0.1:{port}/sounds"));
        let Ok(address) = address else {
            panic!("the address is one")
        };
        let mut pool = Pool::new(address);
        pool.patience = Duration::from_millis(300);
        let outcome = pool.run(Purpose::Read, |_| Ok(()));
        let Err(Error::Lost {
            ref server, tries, ..
        }) = outcome
        else {
            panic!("{outcome:?}")
        };
        assert_eq!(*server, format!("127.0.0.1:{port}"));
        assert!(tries > 1, "it is tried again");
        let message = format!(
            "{:?} {}",
            outcome,
            outcome
                .as_ref()
                .err()
                .map(ToString::to_string)
                .unwrap_or_default()
        );
        assert!(!message.contains("s3cret"), "{message}");
        assert_eq!(pool.lock().busy, 0, "every place is given back");
    }

    #[test]
    fn only_what_can_pass_is_tried_again() {
        for (code, fate) in [
            (SqlState::T_R_SERIALIZATION_FAILURE, Fate::Unordered),
            (SqlState::T_R_DEADLOCK_DETECTED, Fate::Unordered),
            (SqlState::DUPLICATE_SCHEMA, Fate::Unordered),
            (SqlState::CRASH_SHUTDOWN, Fate::Lost),
            (SqlState::CANNOT_CONNECT_NOW, Fate::Lost),
            (SqlState::CONNECTION_FAILURE, Fate::Lost),
            (SqlState::INVALID_PASSWORD, Fate::Final),
            (SqlState::INVALID_CATALOG_NAME, Fate::Final),
            (SqlState::SYNTAX_ERROR, Fate::Final),
            (SqlState::QUERY_CANCELED, Fate::Final),
            (SqlState::DISK_FULL, Fate::Final),
        ] {
            assert_eq!(fate_of_code(&code), fate, "{}", code.code());
        }
    }
}

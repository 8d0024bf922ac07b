//! Why a server cannot start.

use std::io;
use std::net::SocketAddr;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Other machines could reach it, and anybody on them could listen.
    #[error(
        "{address} can be reached from other machines, and no token is set; set the variable HARK_TOKEN to a long \
         random text that clients must send, or serve on 127.0.0.1, which only this machine can reach"
    )]
    Exposed {
        /// Where it was to listen.
        address: SocketAddr,
    },
    /// The token cannot stand in a header.
    #[error(
        "HARK_TOKEN must have 1 to {most} characters: letters, digits and -._~+/=; use a long random one"
    )]
    Token {
        /// The longest that is taken.
        most: usize,
    },
    /// A bound that would let nothing through.
    #[error("{option} must be at least 1")]
    Bound {
        /// Which of the options.
        option: &'static str,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where it was to listen.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// Threads cannot be started.
    #[error("cannot start the server's threads: {source}")]
    Threads {
        /// What the system says.
        source: io::Error,
    },
}

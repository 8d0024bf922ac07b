//! Addresses of files on the Hugging Face hub and of releases on GitHub.
//!
//! The hub serves a file at `ENDPOINT/REPOSITORY/resolve/REVISION/PATH`, a release at `ENDPOINT/RELEASE/FILE`. Nothing more
//! is needed, so [`hark_download`] replaces the hub's own client, which brings hundreds of crates.

use std::path::Path;

use hark_download::{Checksum, Client, Remote, Token};

use crate::published::PublishedFile;

/// A hub and how to reach it.
#[derive(Debug, Clone)]
pub struct Hub {
    client: Client,
    endpoint: String,
    token: Option<Token>,
}

impl Hub {
    /// The address of the public hub.
    pub const PUBLIC: &str = "https://huggingface.co";

    /// The hub at an address ([`Hub::PUBLIC`] or a mirror), with a token where it asks for one.
    pub fn new(endpoint: &str, token: Option<String>) -> Self {
        Self {
            client: Client::new(),
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            token: token.map(Token::new),
        }
    }

    /// The same hub, reached through another client.
    #[must_use]
    pub fn through(self, client: Client) -> Self {
        Self { client, ..self }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// A file of a repository.
    pub(crate) fn remote(&self, repository: &str, file: &PublishedFile, target: &Path) -> Remote {
        Remote {
            token: self.token.clone(),
            ..remote(
                format!("{}/{repository}/resolve/main/{}", self.endpoint, file.path),
                file,
                target,
            )
        }
    }
}

/// Releases on GitHub.
#[derive(Debug, Clone)]
pub struct Releases {
    client: Client,
    endpoint: String,
}

impl Releases {
    /// The address of GitHub.
    pub const PUBLIC: &str = "https://github.com";

    /// Releases at an address ([`Releases::PUBLIC`] or a mirror).
    pub fn new(endpoint: &str) -> Self {
        Self {
            client: Client::new(),
            endpoint: endpoint.trim_end_matches('/').to_owned(),
        }
    }

    /// The same releases, reached through another client.
    #[must_use]
    pub fn through(self, client: Client) -> Self {
        Self { client, ..self }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// A file of a release.
    pub(crate) fn remote(&self, release: &str, file: &PublishedFile, target: &Path) -> Remote {
        remote(format!("{}/{release}/{}", self.endpoint, file.path), file, target)
    }
}

fn remote(url: String, file: &PublishedFile, target: &Path) -> Remote {
    Remote {
        name: file.path.to_owned(),
        url,
        target: target.to_owned(),
        bytes: None,
        checksum: file.sha256.map(|digits| Checksum::Sha256(digits.to_owned())),
        token: None,
    }
}

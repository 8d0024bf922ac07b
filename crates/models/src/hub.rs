//! How published files are reached.
//!
//! A hub serves a file at `HUB/REPOSITORY/resolve/main/PATH`. Nothing more is needed, so [`hark_download`] replaces the hub's
//! own client, which brings hundreds of crates.

use std::path::Path;

use hark_download::{Checksum, Client, Remote, Token};

use crate::published::{Address, PublishedFile};

/// The Hugging Face hub and every other place where models are published, and how to reach them.
#[derive(Debug, Clone)]
pub struct Network {
    client: Client,
    hub: String,
    token: Option<Token>,
}

impl Network {
    /// The address of the public hub.
    pub const PUBLIC_HUB: &str = "https://huggingface.co";

    /// With the hub at an address ([`Network::PUBLIC_HUB`] or a mirror), and a token where the hub asks for one.
    pub fn new(hub: &str, token: Option<String>) -> Self {
        Self {
            client: Client::new(),
            hub: hub.trim_end_matches('/').to_owned(),
            token: token.map(Token::new),
        }
    }

    /// The same, reached through another client.
    #[must_use]
    pub fn through(self, client: Client) -> Self {
        Self { client, ..self }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// What is downloaded into `folder` for a file: the file, or its pieces.
    pub(crate) fn remotes(&self, file: &PublishedFile, folder: &Path) -> Vec<Remote> {
        let checksum = file.sha256.filter(|_| file.is_whole());
        // The token is the hub's; no other host gets it.
        let token = match file.at {
            Address::Hub(_) => self.token.clone(),
            Address::Folder(_) | Address::Pieces(_) => None,
        };
        file.downloads(&self.hub)
            .into_iter()
            .map(|(path, url)| Remote {
                name: path.to_owned(),
                url,
                target: folder.join(path),
                bytes: None,
                checksum: checksum.map(|digits| Checksum::Sha256(digits.to_owned())),
                token: token.clone(),
                replace: true,
            })
            .collect()
    }
}

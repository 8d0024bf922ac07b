//! The address of the server, and TLS.
//!
//! In comes `postgres://user:password@host:port/database?sslmode=require&sslrootcert=/path/ca.pem`. Out come connections.
//! `sslmode` is one of
//!
//! - `disable`: no TLS;
//! - `prefer` (default): TLS if the server offers it. The certificate is not checked: an attacker in between could pretend that TLS
//!   is not offered, so checking it would prove nothing;
//! - `require` and `verify-full`: TLS, with a certificate for this host that is signed by a root that browsers trust or, with
//!   `sslrootcert`, by one in that file.
//!
//! All other options are those of the `postgres` crate. No message contains the password: parse errors quote nothing of the address.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use postgres::config::{Host, SslMode};
use postgres::{Client, Config};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::Error;

/// Longest time to wait for a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// A peer that has been silent for so long is asked whether it lives.
const SILENCE: Duration = Duration::from_secs(30);

/// A server, and what it takes to speak to it.
#[derive(Clone)]
pub(super) struct Address {
    config: Config,
    tls: MakeRustlsConnect,
    name: String,
}

impl Address {
    /// Reads an address.
    pub(super) fn parse(url: &str) -> Result<Self, Error> {
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(Error::Address {
                why: "it does not begin with postgres://",
            });
        }
        let (url, tls) = TlsOptions::take_from(url)?;
        let mut config: Config = url.parse().map_err(|_| Error::Address {
            why: "a part of it is missing or not understood",
        })?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(Error::Address {
                why: "it names no host",
            });
        }
        if config.get_user().is_none() {
            return Err(Error::Address {
                why: "it names no user",
            });
        }
        config.ssl_mode(tls.mode);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        if config.get_application_name().is_none() {
            config.application_name("hark");
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(SILENCE);
        }
        config.keepalives_idle(SILENCE);
        config.keepalives_interval(SILENCE / 3);
        config.keepalives_retries(3);
        let name = name(&config);
        Ok(Self {
            config,
            tls: MakeRustlsConnect::new(tls.client()?),
            name,
        })
    }

    /// The server as messages name it: host and port, nothing else.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// A new connection.
    pub(super) fn connect(&self) -> Result<Client, postgres::Error> {
        self.config.connect(self.tls.clone())
    }

    /// How connections are encrypted, for those that ask a running statement to stop.
    pub(super) fn tls(&self) -> MakeRustlsConnect {
        self.tls.clone()
    }
}

/// Host and port of each server that the address names.
fn name(config: &Config) -> String {
    let ports = config.get_ports();
    let port = |at: usize| ports.get(at).or(ports.first()).copied().unwrap_or(5432);
    let hosts: Vec<String> = if config.get_hosts().is_empty() {
        config
            .get_hostaddrs()
            .iter()
            .enumerate()
            .map(|(at, host)| format!("{host}:{}", port(at)))
            .collect()
    } else {
        let text = |host: &Host| match host {
            Host::Tcp(host) => host.clone(),
            #[cfg(unix)]
            Host::Unix(folder) => folder.display().to_string(),
        };
        config
            .get_hosts()
            .iter()
            .enumerate()
            .map(|(at, host)| format!("{}:{}", text(host), port(at)))
            .collect()
    };
    hosts.join(",")
}

/// What an address says of encryption.
struct TlsOptions {
    mode: SslMode,
    roots: Option<PathBuf>,
}

impl TlsOptions {
    /// Takes the options of TLS out of an address: the crate that reads the rest does not know all of them.
    fn take_from(url: &str) -> Result<(String, Self), Error> {
        let mut options = Self {
            mode: SslMode::Prefer,
            roots: None,
        };
        // A password may hold a question mark; options stand behind the host.
        let host = url.find('@').map_or(0, |at| at + 1);
        let Some(question) = url[host..].find('?').map(|at| host + at) else {
            return Ok((url.to_owned(), options));
        };
        let mut rest = Vec::new();
        for option in url[question + 1..].split('&') {
            match option.split_once('=') {
                Some(("sslmode", value)) => {
                    options.mode = match value {
                        "disable" => SslMode::Disable,
                        "prefer" | "allow" => SslMode::Prefer,
                        "require" | "verify-full" => SslMode::Require,
                        _ => {
                            return Err(Error::Address {
                                why: "sslmode is one of disable, prefer, require, verify-full",
                            });
                        }
                    }
                }
                Some(("sslrootcert", value)) => options.roots = Some(PathBuf::from(unescape(value)?)),
                _ if option.is_empty() => {}
                _ => rest.push(option),
            }
        }
        let mut plain = url[..question].to_owned();
        if !rest.is_empty() {
            plain.push('?');
            plain.push_str(&rest.join("&"));
        }
        Ok((plain, options))
    }

    fn client(&self) -> Result<ClientConfig, Error> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|_| Error::Address {
                why: "no version of TLS is at hand",
            })?;
        if self.mode == SslMode::Require {
            let roots = match &self.roots {
                Some(path) => roots_of(path)?,
                None => webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect(),
            };
            return Ok(builder.with_root_certificates(roots).with_no_client_auth());
        }
        Ok(builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
            .with_no_client_auth())
    }
}

/// The certificates of a PEM file.
fn roots_of(path: &Path) -> Result<RootCertStore, Error> {
    let bytes = fs_err::read(path).map_err(|source| Error::Io {
        path: path.to_owned(),
        source,
    })?;
    let wrong = || Error::Certificates {
        path: path.to_owned(),
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&bytes) {
        roots
            .add(certificate.map_err(|_| wrong())?)
            .map_err(|_| wrong())?;
    }
    if roots.is_empty() { Err(wrong()) } else { Ok(roots) }
}

/// Undoes `%2F` and its like.
fn unescape(text: &str) -> Result<String, Error> {
    let wrong = || Error::Address {
        why: "sslrootcert has a % that is not followed by two hexadecimal digits",
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let digits = tail
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .ok_or_else(wrong)?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

/// Takes any certificate, and still wants the peer to own it.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> String {
        Address::parse(url)
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    }

    #[test]
    fn a_server_that_is_not_there_is_named_without_the_password() {
        // Nothing listens on port 1.
        let error = crate::PostgresStore::open("postgres://hark:s3cret@127.0.0.1:1/sounds", "a")
            .err()
            .unwrap();
        let message = format!("{error} {error:?}");
        assert!(
            message.contains("127.0.0.1:1") && !message.contains("s3cret"),
            "{message}"
        );
    }

    #[test]
    fn host_and_port_are_named_and_the_password_never() {
        for (url, name) in [
            ("postgres://hark:s3cret@db.example:6543/sounds", "db.example:6543"),
            (
                "postgresql://hark:s3cret@db.example/sounds?sslmode=disable",
                "db.example:5432",
            ),
            ("postgres://hark:s3cret%3F%40@one:1,two:2/sounds", "one:1,two:2"),
        ] {
            assert_eq!(
                Address::parse(url)
                    .map(|address| address.name().to_owned())
                    .ok()
                    .as_deref(),
                Some(name)
            );
        }
        for url in [
            "postgres://hark:s3cret@db.example:many/sounds",
            "postgres://hark:s3?cret@db.example/sounds?s3cret=1",
            "postgres://hark:s3cret",
            "hark:s3cret@db.example/sounds",
            "postgres://hark:s3cret@db.example/sounds?sslmode=s3cret",
            "postgres://s3cret.example",
            "postgres://",
            "postgres://hark:s3cret@h/d?sslmode=require&sslrootcert=%zz",
        ] {
            let message = refusal(url);
            assert!(!message.is_empty(), "{url} is taken");
            assert!(!message.contains("cret"), "{message}");
        }
    }

    #[test]
    fn options_of_tls_are_taken_out_and_others_left() -> Result<(), Error> {
        let (url, options) = TlsOptions::take_from(
            "postgres://u@h/d?sslmode=require&connect_timeout=3&sslrootcert=%2Fca%20.pem",
        )?;
        assert_eq!(url, "postgres://u@h/d?connect_timeout=3");
        assert_eq!(options.mode, SslMode::Require);
        assert_eq!(options.roots.as_deref(), Some(Path::new("/ca .pem")));
        let (url, options) = TlsOptions::take_from("postgres://u@h/d")?;
        assert_eq!(
            (url.as_str(), options.mode),
            ("postgres://u@h/d", SslMode::Prefer)
        );
        Ok(())
    }

    #[test]
    fn a_file_without_certificates_is_refused() -> Result<(), Error> {
        let folder = tempfile::tempdir().map_err(|source| Error::Io {
            path: "temporary".into(),
            source,
        })?;
        let empty = folder.path().join("empty.pem");
        fs_err::write(&empty, "nothing").map_err(|source| Error::Io {
            path: empty.clone(),
            source,
        })?;
        let url = |path: &Path| format!("postgres://u@h/d?sslmode=require&sslrootcert={}", path.display());
        assert!(
            refusal(&url(&empty)).contains("no readable PEM certificate"),
            "{}",
            refusal(&url(&empty))
        );
        assert!(refusal(&url(&folder.path().join("absent.pem"))).contains("absent.pem"));
        Ok(())
    }
}

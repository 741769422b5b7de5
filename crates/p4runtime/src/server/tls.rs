//! TLS of the server.

use super::Tls;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{Error, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

fn wrong(path: &Path, why: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {why}", path.display()))
}

/// Maximum length of a file with certificates or a key.
const PEM_BYTES_MAX: u64 = 16 << 20;

fn read(path: &Path) -> io::Result<Vec<u8>> {
    p4jet_files::read(path, PEM_BYTES_MAX).map_err(|error| wrong(path, error))
}

fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let text = read(path)?;
    let read = CertificateDer::pem_slice_iter(&text);
    let all: Vec<_> = read.collect::<Result<_, _>>().map_err(|error| wrong(path, error))?;
    if all.is_empty() {
        return Err(wrong(path, "no certificate, expected PEM: `-----BEGIN CERTIFICATE-----`"));
    }
    Ok(all)
}

fn private_key(path: &Path) -> io::Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_slice(&read(path)?).map_err(|error| match error {
        Error::NoItemsFound => {
            wrong(path, "no private key, expected PEM: `-----BEGIN PRIVATE KEY-----`, for example")
        }
        error => wrong(path, error),
    })
}

/// Accepts TLS 1.2 and 1.3 with these files.
pub fn acceptor(files: &Tls) -> io::Result<TlsAcceptor> {
    let provider = Arc::new(ring::default_provider());
    let key = private_key(&files.key)?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    let builder = match &files.client_authorities {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut authorities = RootCertStore::empty();
            for certificate in certificates(path)? {
                authorities.add(certificate).map_err(|error| wrong(path, error))?;
            }
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| wrong(path, error))?)
        }
    };
    let config = builder.with_single_cert(certificates(&files.certificate)?, key);
    let mut config = config.map_err(|error| wrong(&files.certificate, error))?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

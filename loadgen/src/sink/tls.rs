//! TLS of the sink: a certificate chain and its key, server side only.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Certificate and key that a sink shows. Its `Debug` form has no key in it.
#[derive(Clone, Debug)]
pub struct TlsIdentity {
    pub(super) config: Arc<ServerConfig>,
}

impl TlsIdentity {
    /// From PEM text: the server's certificate first, then its issuers; and the key of it.
    ///
    /// # Errors
    /// `InvalidData` when either is not PEM, or when they do not fit each other.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> io::Result<Self> {
        let invalid = |e: &dyn std::fmt::Display| {
            io::Error::new(io::ErrorKind::InvalidData, format!("TLS identity: {e}"))
        };
        let chain = CertificateDer::pem_slice_iter(certificates)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|e| invalid(&e))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| invalid(&e))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|e| invalid(&e))?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|e| invalid(&e))?;
        Ok(Self {
            config: Arc::new(config),
        })
    }

    /// The same from two files, which may be one.
    ///
    /// # Errors
    /// Those of reading, with the path, and those of [`TlsIdentity::from_pem`].
    pub fn from_files(certificates: &Path, key: &Path) -> io::Result<Self> {
        let read = |path: &Path| {
            fs::read(path)
                .map_err(|e| io::Error::new(e.kind(), format!("read {}: {e}", path.display())))
        };
        Self::from_pem(&read(certificates)?, &read(key)?)
    }
}

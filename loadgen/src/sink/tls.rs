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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use forebay_wire::upgrade::{Expected, UpgradeReply, UpgradeRequest};
    use forebay_wire::ws::{Opcode, append_client_frame};
    use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

    use super::*;
    use crate::sink::test_client::two_trades;
    use crate::sink::{Sink, SinkConfig};

    fn certificate() -> (Vec<u8>, Vec<u8>) {
        let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = signed.signing_key.serialize_pem();
        (signed.cert.pem().into_bytes(), key.into_bytes())
    }

    /// Sends a message over TLS; the OK's bytes.
    fn send(sink: &Sink, root: &[u8]) -> io::Result<[u8; 13]> {
        let mut roots = RootCertStore::empty();
        let root = CertificateDer::from_pem_slice(root).unwrap();
        roots.add(root).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "localhost".try_into().unwrap();
        let client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = StreamOwned::new(client, TcpStream::connect(sink.addr())?);
        let request = UpgradeRequest::new("localhost", sink.addr().port(), true, [7; 16]);
        stream.write_all(&request.encode())?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            head.extend_from_slice(&byte);
        }
        let upgraded = UpgradeReply::parse(&head, &Expected::of(&request));
        assert!(upgraded.unwrap().is_some());
        let mut frame = Vec::new();
        append_client_frame(&mut frame, Opcode::Binary, &two_trades(), [1, 2, 3, 4]);
        stream.write_all(&frame)?;
        let mut ok = [0; 13];
        stream.read_exact(&mut ok)?;
        Ok(ok)
    }

    #[test]
    fn a_sink_with_a_certificate_talks_to_clients_that_trust_it() {
        let (cert, key) = certificate();
        let sink = Sink::start(SinkConfig {
            tls: Some(TlsIdentity::from_pem(&cert, &key).unwrap()),
            ..SinkConfig::default()
        })
        .unwrap();
        let ok = send(&sink, &cert).unwrap();
        // A frame of 27 bytes: OK, message 0, one table.
        assert_eq!(ok, [0x82, 27, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
        let (other, _) = certificate();
        assert!(send(&sink, &other).is_err());
        assert_eq!(sink.stop().rows, 2);
    }

    #[test]
    fn files_that_are_no_identity_are_refused_and_no_key_is_shown() {
        let (cert, key) = certificate();
        let (_, other) = certificate();
        assert!(TlsIdentity::from_pem(b"", &key).is_err());
        assert!(TlsIdentity::from_pem(&cert, b"none").is_err());
        assert!(TlsIdentity::from_pem(&cert, &other).is_err());
        let identity = TlsIdentity::from_pem(&cert, &key).unwrap();
        let secret = String::from_utf8(key).unwrap();
        let secret = secret.lines().nth(1).unwrap();
        assert!(!format!("{identity:?}").contains(secret));
        assert!(TlsIdentity::from_files(Path::new("/nonexistent"), Path::new("/x")).is_err());
    }
}

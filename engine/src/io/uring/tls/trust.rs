//! Whom a connection trusts: reads the authorities, once, on the thread that opens the engine.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore, SignatureScheme,
};

use crate::config::{Config, Roots};
use crate::error::Error;

/// A PEM file of authorities is at most this long; the system's whole store is below 1 MiB.
const ROOTS_BYTES_MAX: u64 = 16 << 20;

/// The settings of every TLS connection; `None` for `ws`.
pub(crate) fn client(config: &Config) -> Result<Option<Arc<ClientConfig>>, Error> {
    if !config.tls {
        return Ok(None);
    }
    for endpoint in &config.endpoints {
        if ServerName::try_from(endpoint.host.as_str()).is_err() {
            let reason = format!("{:?} is no name that a certificate can have", endpoint.host);
            return Err(Error::config("addr", reason));
        }
    }
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Internal(format!("TLS versions: {error}")))?;
    let client = if config.security.verify {
        builder
            .with_root_certificates(roots(&config.security.roots)?)
            .with_no_client_auth()
    } else {
        tracing::warn!(
            "FB-T001 tls_verify=unsafe_off: server certificates are not checked, anybody on the \
             way can read and change the rows"
        );
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
            .with_no_client_auth()
    };
    Ok(Some(Arc::new(client)))
}

fn roots(roots: &Roots) -> Result<RootCertStore, Error> {
    let mut store = RootCertStore::empty();
    if matches!(roots, Roots::Webpki | Roots::WebpkiAndOs) {
        store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    if matches!(roots, Roots::Os | Roots::WebpkiAndOs) {
        let found = rustls_native_certs::load_native_certs();
        // Stores contain certificates that rustls cannot use; those are passed over.
        store.add_parsable_certificates(found.certs);
        if store.is_empty() {
            let errors: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
            let reason = format!(
                "the system has no usable authorities ({}); install ca-certificates, set \
                 SSL_CERT_FILE, or use tls_roots",
                errors.join("; ")
            );
            return Err(Error::config("tls_ca", reason));
        }
    }
    if let Roots::PemFile(path) = roots {
        pem(path, &mut store)?;
    }
    Ok(store)
}

/// Every certificate of a PEM file; all of them must be good.
fn pem(path: &Path, store: &mut RootCertStore) -> Result<(), Error> {
    let refused = |why: String| Error::config("tls_roots", format!("{}: {why}", path.display()));
    let bytes = crate::io::sys::read_bounded(path, ROOTS_BYTES_MAX)
        .map_err(|error| refused(error.to_string()))?;
    for certificate in CertificateDer::pem_slice_iter(&bytes) {
        let certificate = certificate.map_err(|error| refused(format!("not PEM: {error}")))?;
        store
            .add(certificate)
            .map_err(|error| refused(format!("a certificate cannot be used: {error}")))?;
    }
    if store.is_empty() {
        let hint = match bytes.first() {
            Some(0x30 | 0xFE) => " (a key store or DER: convert it to PEM with openssl)",
            _ => "",
        };
        return Err(refused(format!("no PEM certificate in it{hint}")));
    }
    Ok(())
}

/// Accepts every certificate. That the server holds its key is still checked.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let supported = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, supported)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let supported = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, supported)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

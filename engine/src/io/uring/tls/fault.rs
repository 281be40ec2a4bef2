//! What went wrong in TLS, in words that lead to the remedy.

use std::io;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

/// The error as the transport reports it.
pub(super) fn explained(error: &Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("TLS: {}", text(error)))
}

fn text(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(error) => certificate(error),
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "the server does not speak TLS here; use the schema ws:: or its TLS port".to_owned()
        }
        Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "the server asks for a client certificate, which is not supported".to_owned()
        }
        other => other.to_string(),
    }
}

fn certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!("the server's certificate has expired ({error}); renew it on the server")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            format!("the server's certificate is not valid yet ({error}); check both clocks")
        }
        CertificateError::UnknownIssuer => "the server's certificate has an unknown issuer; give \
             its authority with tls_roots=FILE.pem, or tls_ca=os_roots if the system knows it"
            .to_owned(),
        CertificateError::BadSignature => {
            "the server's certificate is not signed by the authority \
             it names; if that was renewed, give the new one with tls_roots=FILE.pem"
                .to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("the server's certificate does not match the name in addr ({error})")
        }
        CertificateError::Revoked => "the server's certificate was revoked".to_owned(),
        other => format!(
            "the server's certificate cannot be accepted ({other}); check it with `openssl \
             s_client -connect HOST:PORT -showcerts`"
        ),
    }
}

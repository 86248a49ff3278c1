//! Trusts the certificates in a file, also where one of them is the server's own.
//!
//! OpenSSL, and so curl, accepts a server's certificate that is in the file itself. webpki builds a chain to an authority
//! instead. It rejects such a certificate in two cases:
//!
//! - it is an authority's, as `openssl req -x509` makes them
//! - the file lacks its issuer

use std::sync::Arc;

use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::client::verify_server_name;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// Accepts chains to the certificates of a file, and those certificates themselves.
#[derive(Debug)]
pub(super) struct Anchored {
    pub(super) chains: Arc<WebPkiServerVerifier>,
    pub(super) certificates: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Anchored {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified =
            self.chains
                .verify_server_cert(certificate, intermediates, name, ocsp_response, now);
        let Err(error) = verified else {
            return verified;
        };
        // webpki checks the dates before it reports one of these.
        let lacks_only_a_chain = match &error {
            Error::InvalidCertificate(CertificateError::UnknownIssuer) => true,
            Error::InvalidCertificate(CertificateError::Other(other)) => {
                other.to_string().contains("CaUsedAsEndEntity")
            }
            // Without alternative names, webpki knows no name at all.
            Error::InvalidCertificate(CertificateError::NotValidForNameContext {
                presented,
                ..
            }) => presented.is_empty(),
            _ => false,
        };
        if !lacks_only_a_chain || !self.certificates.contains(certificate) {
            return Err(error);
        }
        match verify_server_name(&ParsedCertificate::try_from(certificate)?, name) {
            Err(Error::InvalidCertificate(CertificateError::NotValidForNameContext {
                presented,
                ..
            })) if presented.is_empty() && is_common_name(certificate, name) => {}
            checked => checked?,
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}

/// Returns whether the certificate's subject has this host or address as its common name, as in `-subj /CN=localhost`.
fn is_common_name(certificate: &CertificateDer<'_>, name: &ServerName<'_>) -> bool {
    let name = name.to_str();
    let common = subject(certificate).and_then(common_name);
    common.is_some_and(|common| common.eq_ignore_ascii_case(name.as_bytes()))
}

/// Returns the first item of DER, as its tag and its contents, and the rest.
fn item(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut len = usize::from(first);
    if first >= 0x80 {
        let (digits, behind) = rest.split_at_checked(usize::from(first & 0x7f))?;
        rest = behind;
        len = digits.iter().try_fold(0_usize, |len, digit| {
            len.checked_mul(256)?.checked_add(usize::from(*digit))
        })?;
    }
    let (contents, rest) = rest.split_at_checked(len)?;
    Some((tag, contents, rest))
}

/// Returns the contents of the subject (RFC 5280, section 4.1).
fn subject<'a>(certificate: &'a CertificateDer<'_>) -> Option<&'a [u8]> {
    const VERSION: u8 = 0xa0;
    let (_, certificate, _) = item(certificate)?;
    let (_, mut rest, _) = item(certificate)?;
    if rest.first() == Some(&VERSION) {
        rest = item(rest)?.2;
    }
    // Serial number, signature algorithm, issuer, validity.
    for _ in 0..4 {
        rest = item(rest)?.2;
    }
    item(rest).map(|(_, subject, _)| subject)
}

/// Returns the common name in the contents of a name.
fn common_name(mut names: &[u8]) -> Option<&[u8]> {
    const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
    while let Some((_, set, rest)) = item(names) {
        names = rest;
        let (_, pair, _) = item(set)?;
        let (_, kind, value) = item(pair)?;
        if kind == COMMON_NAME {
            return item(value).map(|(_, value, _)| value);
        }
    }
    None
}

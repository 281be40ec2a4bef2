//! Who may see the rows and who may send them: `tls_*`, credentials, `on_auth_error`.

use std::path::PathBuf;

use super::Secret;
use super::grammar::Params;
use super::value::invalid;
use crate::error::Error;

/// Where a password or token comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// The connect string itself.
    Text(Secret),
    /// A file, read again at every connection attempt; trailing line breaks do not count.
    File(PathBuf),
}

/// Credentials sent with the upgrade request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// None.
    Anonymous,
    /// HTTP Basic: `username` with `password` or `password_file`.
    Basic {
        /// User name.
        username: String,
        /// Password.
        password: SecretSource,
    },
    /// HTTP Bearer: `token` or `token_file`.
    Bearer(SecretSource),
}

impl Auth {
    /// The file that has to be read before an attempt.
    pub(crate) fn file(&self) -> Option<&PathBuf> {
        match self {
            Self::Basic { password: s, .. } | Self::Bearer(s) => match s {
                SecretSource::File(path) => Some(path),
                SecretSource::Text(_) => None,
            },
            Self::Anonymous => None,
        }
    }
}

/// Whose signature makes a server's certificate good (`tls_ca`, `tls_roots`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Roots {
    /// Mozilla's authorities, compiled in.
    Webpki,
    /// The operating system's authorities.
    Os,
    /// Both.
    WebpkiAndOs,
    /// The certificates of this PEM file and no others.
    PemFile(PathBuf),
}

/// What a connection must prove and what is done when credentials are refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Security {
    /// `tls_ca` and `tls_roots`: the authorities trusted with `wss`.
    pub roots: Roots,
    /// `tls_verify`: off accepts every certificate.
    pub verify: bool,
    /// `on_auth_error=retry`: 401 and 403 are tried again like any failed attempt.
    pub retry_auth: bool,
}

/// Takes `tls_*` and `on_auth_error`.
pub(super) fn security(params: &mut Params, tls: bool) -> Result<Security, Error> {
    let keys = ["tls_verify", "tls_ca", "tls_roots", "tls_roots_password"];
    let [verify, ca, roots, password] = keys.map(|key| (key, params.take(key)));
    if !tls {
        for (key, value) in [&verify, &ca, &roots, &password] {
            if value.is_some() {
                return Err(Error::config(*key, "needs the schema wss::"));
            }
        }
    }
    let verify = switched(&verify, true, ["on", "unsafe_off"])?;
    if password.1.is_some() {
        return Err(Error::config(
            "tls_roots_password",
            password_refused(roots.1.as_deref()),
        ));
    }
    let roots = trusted(ca.1.as_deref(), roots.1)?;
    if !verify && matches!(roots, Roots::PemFile(_)) {
        let reason = "contradicts tls_roots: remove one of them";
        return Err(Error::config("tls_verify", format!("unsafe_off {reason}")));
    }
    let on_auth_error = ("on_auth_error", params.take("on_auth_error"));
    let retry_auth = switched(&on_auth_error, false, ["retry", "terminal"])?;
    Ok(Security {
        roots,
        verify,
        retry_auth,
    })
}

/// A key with a word for true and a word for false.
fn switched(
    (key, value): &(&str, Option<String>),
    default: bool,
    [yes, no]: [&str; 2],
) -> Result<bool, Error> {
    match value {
        None => Ok(default),
        Some(value) if value.eq_ignore_ascii_case(yes) => Ok(true),
        Some(value) if value.eq_ignore_ascii_case(no) => Ok(false),
        Some(value) => Err(invalid(key, value, &format!("{yes} or {no}"))),
    }
}

/// Why key stores are not read, and how to turn one into PEM. The password is not repeated.
fn password_refused(roots: Option<&str>) -> String {
    let Some(store) = roots else {
        return "needs tls_roots".to_owned();
    };
    format!(
        "key stores (JKS, PKCS#12) are not read, only PEM: convert it with `openssl pkcs12 -in \
         {store} -cacerts -nokeys -out roots.pem` (a JKS first with `keytool -importkeystore \
         -srckeystore {store} -destkeystore roots.p12 -deststoretype PKCS12`), then \
         tls_roots=roots.pem without tls_roots_password"
    )
}

fn trusted(ca: Option<&str>, roots: Option<String>) -> Result<Roots, Error> {
    if roots.as_deref() == Some("") {
        return Err(invalid("tls_roots", "", "the path of a PEM file"));
    }
    let ca = ca.map(str::to_ascii_lowercase);
    match (ca.as_deref(), roots) {
        (None | Some("pem_file"), Some(path)) => Ok(Roots::PemFile(path.into())),
        (Some("pem_file"), None) => Err(Error::config(
            "tls_ca",
            "pem_file needs tls_roots with the path of a PEM file",
        )),
        (Some("webpki_roots" | "os_roots" | "webpki_and_os_roots"), Some(_)) => Err(Error::config(
            "tls_ca",
            "contradicts tls_roots, which goes with pem_file only: remove one of them",
        )),
        (None | Some("webpki_roots"), None) => Ok(Roots::Webpki),
        (Some("os_roots"), None) => Ok(Roots::Os),
        (Some("webpki_and_os_roots"), None) => Ok(Roots::WebpkiAndOs),
        (Some(value), _) => {
            let wanted = "webpki_roots, os_roots, webpki_and_os_roots or pem_file";
            Err(invalid("tls_ca", value, wanted))
        }
    }
}

/// Takes `username`, `password`, `token` and their files.
pub(super) fn auth(params: &mut Params) -> Result<Auth, Error> {
    let username = one_of(params, "username", "user")?;
    let password = one_of(params, "password", "pass")?;
    let password = source(params, "password", password)?;
    let token = params.take("token");
    if token.as_deref() == Some("") {
        let reason = "empty: leave the key out for no authentication";
        return Err(Error::config("token", reason));
    }
    let token = source(params, "token", token)?;
    match (username, password, token) {
        (None, None, None) => Ok(Auth::Anonymous),
        (None, None, Some(token)) => Ok(Auth::Bearer(token)),
        (_, _, Some(_)) => Err(Error::config(
            "token",
            "cannot be combined with username and password",
        )),
        (Some(_), None, None) => Err(Error::config("password", "missing beside username")),
        (None, Some(_), None) => Err(Error::config("username", "missing beside password")),
        (Some(username), Some(_), None) if username.is_empty() || username.contains(':') => Err(
            Error::config("username", "must not be empty and must not contain a colon"),
        ),
        (Some(username), Some(password), None) => Ok(Auth::Basic { username, password }),
    }
}

/// The secret of `key`, given as text or as `key_file`.
fn source(
    params: &mut Params,
    key: &str,
    text: Option<String>,
) -> Result<Option<SecretSource>, Error> {
    let file_key = format!("{key}_file");
    match (text, params.take(&file_key)) {
        (None, None) => Ok(None),
        (Some(text), None) => Ok(Some(SecretSource::Text(Secret(text)))),
        (None, Some(path)) if path.is_empty() => Err(invalid(&file_key, "", "the path of a file")),
        (None, Some(path)) => Ok(Some(SecretSource::File(path.into()))),
        (Some(_), Some(_)) => Err(Error::config(
            file_key,
            format!("cannot be combined with {key}"),
        )),
    }
}

fn one_of(params: &mut Params, key: &str, alias: &str) -> Result<Option<String>, Error> {
    match (params.take(key), params.take(alias)) {
        (Some(_), Some(_)) => Err(Error::config(alias, format!("is the same key as {key}"))),
        (value, other) => Ok(value.or(other)),
    }
}

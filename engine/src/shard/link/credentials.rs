//! The credentials of the attempts: taken from the connect string or read anew for each, and what
//! a refusal of them leads to. Pure: what was read comes in as data.

use std::fmt;
use std::io;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::config::{Auth, Config, Secret, SecretSource};

/// What a 401 or 403 leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// No server will take these credentials.
    Terminal,
    /// An attempt failed like any other (`on_auth_error=retry`).
    Failed,
    /// The file is read once more: what it says now decides.
    ReadAgain,
}

/// Why an attempt cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unready {
    /// The file could not be read this time.
    Failed(String),
    /// The file still says what the server refused.
    Terminal(String),
}

/// What is sent to prove who we are.
#[derive(Debug)]
pub(super) struct Credentials {
    auth: Auth,
    retry: bool,
    /// The secret as last read or given.
    secret: Option<Secret>,
    /// The server's words about that secret, when the file was to be read again.
    refused: Option<String>,
}

impl Credentials {
    pub(super) fn new(config: &Config) -> Self {
        let secret = match &config.auth {
            Auth::Basic { password: s, .. } | Auth::Bearer(s) => match s {
                SecretSource::Text(secret) => Some(secret.clone()),
                SecretSource::File(_) => None,
            },
            Auth::Anonymous => None,
        };
        Self {
            auth: config.auth.clone(),
            retry: config.security.retry_auth,
            secret,
            refused: None,
        }
    }

    /// The file to read before an attempt.
    pub(super) fn file(&self) -> Option<PathBuf> {
        self.auth.file().cloned()
    }

    /// What the file says now, or that it did not answer in time (`None`): then the secret of the
    /// last attempt serves again, unless the server refused it.
    pub(super) fn read(&mut self, answer: Option<io::Result<Secret>>) -> Result<(), Unready> {
        let Some(path) = self.auth.file() else {
            return Ok(());
        };
        let key = match self.auth {
            Auth::Basic { .. } => "password_file",
            _ => "token_file",
        };
        let path = path.display();
        match answer {
            Some(Ok(secret)) => {
                let unchanged = self.secret.as_ref() == Some(&secret);
                self.secret = Some(secret);
                match self.refused.take() {
                    Some(reason) if unchanged => Err(Unready::Terminal(format!(
                        "{reason}; {key} {path} has not changed since"
                    ))),
                    _ => Ok(()),
                }
            }
            Some(Err(error)) => Err(Unready::Failed(format!("{key} {path}: {error}"))),
            None if self.secret.is_some() && self.refused.is_none() => Ok(()),
            None => Err(Unready::Failed(format!("{key} {path}: reading timed out"))),
        }
    }

    /// The server said 401 or 403, in these words.
    pub(super) fn refused(&mut self, words: &str) -> Refusal {
        if self.retry {
            Refusal::Failed
        } else if self.auth.file().is_some() {
            self.refused = Some(words.to_owned());
            Refusal::ReadAgain
        } else {
            Refusal::Terminal
        }
    }

    /// The value of the `Authorization` header.
    pub(super) fn header(&self) -> Option<Header> {
        let Secret(secret) = self.secret.as_ref()?;
        match &self.auth {
            Auth::Anonymous => None,
            Auth::Basic { username, .. } => {
                let pair = STANDARD.encode(format!("{username}:{secret}"));
                Some(Header(format!("Basic {pair}")))
            }
            Auth::Bearer(_) => Some(Header(format!("Bearer {secret}"))),
        }
    }
}

/// The value of an `Authorization` header; never printed.
pub(super) struct Header(pub(super) String);

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(keys: &str) -> Credentials {
        let text = format!("ws::addr=h;{keys}");
        Credentials::new(&Config::parse(&text).expect("a good string"))
    }

    /// Reads a file that says this.
    fn read(credentials: &mut Credentials, text: &str) -> Result<(), Unready> {
        credentials.read(Some(Ok(Secret(text.to_owned()))))
    }

    fn header(credentials: &Credentials) -> Option<String> {
        credentials.header().map(|header| header.0)
    }

    #[test]
    fn text_in_the_connect_string_is_final() {
        let mut basic = credentials("username=u;password=p");
        assert_eq!(header(&basic).as_deref(), Some("Basic dTpw"));
        assert_eq!(basic.read(None), Ok(()));
        assert_eq!(basic.refused("401"), Refusal::Terminal);
        let bearer = credentials("token=t");
        assert_eq!(header(&bearer).as_deref(), Some("Bearer t"));
        assert_eq!(header(&credentials("")), None);
    }

    #[test]
    fn a_refused_file_is_tried_again_once_per_change() {
        let mut file = credentials("token_file=/t");
        assert_eq!(file.file(), Some("/t".into()));
        assert_eq!(header(&file), None);
        assert_eq!(read(&mut file, "old"), Ok(()));
        assert_eq!(file.refused("401 from h"), Refusal::ReadAgain);
        assert_eq!(read(&mut file, "new"), Ok(()));
        assert_eq!(header(&file).as_deref(), Some("Bearer new"));
        assert_eq!(read(&mut file, "new"), Ok(()), "nobody refused this one");
        assert_eq!(file.refused("403 from h"), Refusal::ReadAgain);
        let why = Unready::Terminal("403 from h; token_file /t has not changed since".to_owned());
        assert_eq!(read(&mut file, "new"), Err(why));
    }

    #[test]
    fn a_file_that_does_not_answer_is_replaced_by_what_it_last_said() {
        let mut file = credentials("username=u;password_file=/p");
        let timed_out = Unready::Failed("password_file /p: reading timed out".to_owned());
        assert_eq!(file.read(None), Err(timed_out.clone()));
        assert_eq!(read(&mut file, "p"), Ok(()));
        assert_eq!(file.read(None), Ok(()));
        assert_eq!(header(&file).as_deref(), Some("Basic dTpw"));
        let gone = Some(Err(io::Error::from(io::ErrorKind::NotFound)));
        let missing = Unready::Failed("password_file /p: entity not found".to_owned());
        assert_eq!(file.read(gone), Err(missing));
        assert_eq!(file.refused("401"), Refusal::ReadAgain);
        assert_eq!(file.read(None), Err(timed_out), "never what was refused");
    }

    #[test]
    fn retry_takes_a_refusal_for_a_failed_attempt() {
        let mut text = credentials("token=t;on_auth_error=retry");
        assert_eq!(text.refused("401"), Refusal::Failed);
        let mut file = credentials("token_file=/t;on_auth_error=retry");
        assert_eq!(read(&mut file, "same"), Ok(()));
        assert_eq!(file.refused("401"), Refusal::Failed);
        assert_eq!(read(&mut file, "same"), Ok(()));
    }

    #[test]
    fn nothing_of_it_is_printed() {
        let mut file = credentials("token_file=/t");
        assert_eq!(read(&mut file, "hunter2"), Ok(()));
        assert!(!format!("{file:?} {:?}", file.header()).contains("hunter2"));
    }
}

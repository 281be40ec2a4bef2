//! Certificates made for a test, and a server side of TLS that hands the bytes to a plain port.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion};

/// An authority of one test.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Self { issuer, pem }
    }

    /// Its certificate in a file.
    pub(crate) fn file(&self, dir: &Path) -> PathBuf {
        let path = dir.join("roots.pem");
        std::fs::write(&path, &self.pem).unwrap();
        path
    }

    /// A server's certificate for these names, with the usual versions of TLS.
    pub(crate) fn server(&self, names: &[&str]) -> Arc<ServerConfig> {
        self.issue(names, false, rustls::ALL_VERSIONS)
    }

    /// Certificate and key in PEM, for a server that wants them as text.
    pub(crate) fn pem(&self, names: &[&str]) -> (String, String) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let params = CertificateParams::new(names).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    pub(crate) fn expired(&self, names: &[&str]) -> Arc<ServerConfig> {
        self.issue(names, true, rustls::ALL_VERSIONS)
    }

    pub(crate) fn issue(
        &self,
        names: &[&str],
        expired: bool,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ServerConfig> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        if expired {
            params.not_before = date_time_ymd(2019, 1, 1);
            params.not_after = date_time_ymd(2020, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        let certificate: CertificateDer<'static> =
            params.signed_by(&key, &self.issuer).unwrap().into();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        Arc::new(config)
    }
}

/// How a connection ends by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Never.
    Never,
    /// After so many bytes of the client, without a word.
    Silent(u64),
    /// After so many bytes of the client, with a `close_notify`.
    Announced(u64),
}

/// A TLS server in front of a plain one.
pub(crate) struct Front {
    pub(crate) addr: SocketAddr,
    stopping: Arc<AtomicBool>,
    pub(crate) handshakes: Arc<AtomicU64>,
    acceptor: Option<JoinHandle<()>>,
}

impl Front {
    pub(crate) fn start(behind: SocketAddr, config: Arc<ServerConfig>, end: End) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let (stopping, handshakes) = (Arc::default(), Arc::default());
        let (stop, count) = (Arc::clone(&stopping), Arc::clone(&handshakes));
        let acceptor = std::thread::spawn(move || {
            let stop: Arc<AtomicBool> = stop;
            for client in listener.incoming() {
                if stop.load(Ordering::Acquire) {
                    return;
                }
                let (client, config, count) = (client.unwrap(), config.clone(), Arc::clone(&count));
                std::thread::spawn(move || serve(client, behind, config, end, &count));
            }
        });
        Self {
            addr,
            stopping,
            handshakes,
            acceptor: Some(acceptor),
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.addr.port()
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        // Wakes the acceptor. The connections end with the engine's.
        let _ = TcpStream::connect(self.addr);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

type Shared = Arc<Mutex<ServerConnection>>;

fn serve(
    client: TcpStream,
    behind: SocketAddr,
    config: Arc<ServerConfig>,
    end: End,
    handshakes: &AtomicU64,
) {
    let server = TcpStream::connect(behind).unwrap();
    for socket in [&client, &server] {
        socket.set_nodelay(true).unwrap();
    }
    let tls: Shared = Arc::new(Mutex::new(ServerConnection::new(config).unwrap()));
    let down = {
        let (tls, server, client) = (
            Arc::clone(&tls),
            server.try_clone().unwrap(),
            client.try_clone().unwrap(),
        );
        std::thread::spawn(move || down(&tls, server, &client))
    };
    up(&tls, &client, &server, end, handshakes);
    for socket in [client, server] {
        let _ = socket.shutdown(Shutdown::Both);
    }
    let _ = down.join();
}

/// Client to server, until either ends or `end` says so.
fn up(tls: &Shared, client: &TcpStream, server: &TcpStream, end: End, handshakes: &AtomicU64) {
    let (mut from, mut to) = (client, server);
    let mut encrypted = vec![0; 256 << 10];
    let mut plain = vec![0; 256 << 10];
    let (mut passed, mut counted) = (0u64, false);
    loop {
        let got = from.read(&mut encrypted).unwrap_or(0);
        if got == 0 {
            return;
        }
        let mut rest = &encrypted[..got];
        while !rest.is_empty() {
            let mut tls = tls.lock().unwrap();
            tls.read_tls(&mut rest).unwrap();
            let state = tls.process_new_packets();
            if tls.wants_write() && flush(&mut tls, client).is_err() {
                return;
            }
            if state.is_err() {
                return;
            }
            if !counted && !tls.is_handshaking() {
                counted = true;
                handshakes.fetch_add(1, Ordering::AcqRel);
            }
            let mut used = 0;
            while let Ok(got) = tls.reader().read(&mut plain[used..]) {
                if got == 0 {
                    break;
                }
                used += got;
            }
            drop(tls);
            passed += used as u64;
            if to.write_all(&plain[..used]).is_err() {
                return;
            }
        }
        match end {
            End::Silent(after) if passed >= after => return,
            End::Announced(after) if passed >= after => {
                let mut tls = tls.lock().unwrap();
                tls.send_close_notify();
                let _ = flush(&mut tls, client);
                return;
            }
            _ => {}
        }
    }
}

/// Server to client.
fn down(tls: &Shared, mut server: TcpStream, client: &TcpStream) {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let got = server.read(&mut bytes).unwrap_or(0);
        if got == 0 {
            let _ = client.shutdown(Shutdown::Both);
            return;
        }
        let mut tls = tls.lock().unwrap();
        if tls.writer().write_all(&bytes[..got]).is_err() || flush(&mut tls, client).is_err() {
            return;
        }
    }
}

fn flush(tls: &mut ServerConnection, mut client: &TcpStream) -> std::io::Result<()> {
    while tls.wants_write() {
        tls.write_tls(&mut client)?;
    }
    Ok(())
}

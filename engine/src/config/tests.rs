//! Every key: its default, what it accepts, what it refuses and how the refusal names it.

use super::*;
use crate::error::Error;

const BASE: &str = "ws::addr=h;";

fn parse(rest: &str) -> Config {
    let text = format!("{BASE}{rest}");
    Config::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The key that refuses `text`, and the reason.
fn refusal(text: &str) -> (String, String) {
    match Config::parse(text) {
        Err(Error::Config { key, reason }) => (key, reason),
        other => panic!("{text}: {other:?}"),
    }
}

fn text(secret: &str) -> SecretSource {
    SecretSource::Text(Secret(secret.to_owned()))
}

fn refused_key(rest: &str) -> String {
    refusal(&format!("{BASE}{rest}")).0
}

#[test]
fn defaults_are_those_of_the_official_clients() {
    let millis = Duration::from_millis;
    let expected = Config {
        tls: false,
        endpoints: vec![Endpoint {
            host: "h".to_owned(),
            port: 9000,
        }],
        auth: Auth::Anonymous,
        security: Security {
            roots: Roots::Webpki,
            verify: true,
            retry_auth: false,
        },
        auth_timeout: millis(15_000),
        connect_timeout: millis(15_000),
        sf_dir: None,
        sender_id: "default".to_owned(),
        segment_bytes: 4 << 20,
        total_bytes: 128 << 20,
        durability: Durability::Memory,
        sync_interval: millis(5_000),
        commit_window: Duration::ZERO,
        commit_window_bytes: 256 << 10,
        append_deadline: millis(30_000),
        backoff_initial: millis(100),
        backoff_max: millis(5_000),
        reconnect_max_duration: millis(300_000),
        initial_connect: InitialConnect::Off,
        close_flush_timeout: Some(millis(5_000)),
        max_buf_bytes: 104_857_600,
        max_name_bytes: 127,
        max_frame_rejections: 4,
        poison_window: millis(5_000),
        delivery: DeliveryKeys {
            durable_ack: None,
            durable_keepalive: Some(millis(200)),
            ping_interval: Some(millis(15_000)),
            ack_progress_timeout: Some(millis(60_000)),
            policies: Policies::default(),
            rejected_dir: None,
            rejected_max_bytes: 1 << 30,
        },
        shards: ShardKeys {
            count: ShardCount::Fixed(1),
            cores: Cores::Auto,
            route_by: RouteBy::Table,
            adopt: Adopt::Before,
        },
        spin: Duration::from_micros(50),
        idle_spin: false,
        intake: IntakeKeys {
            file: false,
            dir: None,
            ring_bytes: 1 << 20,
            total_bytes: 1 << 30,
        },
        lock_retry: millis(500),
        memory_budget_bytes: 64 << 20,
        producer: ProducerKeys {
            auto_flush: AutoFlush::OFF,
            stamp_at_now: false,
            row_seq: None,
            receive_time: None,
            past_max: None,
            future_max: None,
        },
        symbols_max: 1_000_000,
        symbols_reset: 500_000,
        orphans: OrphanKeys {
            drain: false,
            drainers_max: 4,
            scan_interval: millis(30_000),
        },
        steward: StewardKeys {
            respawn_backoff: millis(1_000),
            respawns_max: 5,
            respawn_window: millis(60_000),
            spares: 2,
            prefill: Prefill::Auto,
            min_free_bytes: 0,
        },
        events: EventKeys::default(),
    };
    assert_eq!(parse(""), expected);
    // Setting a key to its own default changes nothing.
    let explicit = "sender_id=default;sf_max_segment_bytes=4m;sf_max_total_bytes=128M;\
         sf_durability=memory;sf_append_deadline_millis=30000;auth_timeout_ms=15000;\
         close_flush_timeout_millis=5000;max_buf_size=104857600;max_name_len=127;\
         max_frame_rejections=4;poison_min_escalation_window_millis=5000;cores=auto;pin=on;\
         spin_micros=50;idle=park;intake_ring_bytes=1m;lock_retry_millis=500;\
         memory_budget_bytes=64m;symbol_dict_max=1000000;\
         symbol_dict_reset_threshold=500000;request_durable_ack=off;drain_orphans=off;auto_flush=off";
    assert_eq!(parse(explicit), expected);
}

#[test]
fn totals_default_by_mode_and_grow_with_the_segment() {
    assert_eq!(parse("sf_dir=/d").total_bytes, 10 << 30);
    assert_eq!(
        parse("sf_max_segment_bytes=64m").total_bytes,
        5 * (64 << 20)
    );
    assert_eq!(
        parse("sf_dir=/d;sf_max_segment_bytes=1g").total_bytes,
        10 << 30
    );
    assert_eq!(
        parse("sf_max_segment_bytes=1m;sf_max_total_bytes=2m").total_bytes,
        2 << 20
    );
    assert_eq!(
        refused_key("sf_max_segment_bytes=1m;sf_max_total_bytes=2097151"),
        "sf_max_total_bytes"
    );
    assert_eq!(refused_key("sf_max_total_bytes=4m"), "sf_max_total_bytes");
}

#[test]
fn segments_are_whole_blocks_of_at_least_64_kib() {
    for (text, bytes) in [
        ("1", 65_536),
        ("33", 65_536),
        ("65535", 65_536),
        ("65536", 65_536),
        ("70000", 69_632),
        ("1g", 1 << 30),
    ] {
        let config = parse(&format!("sf_max_segment_bytes={text}"));
        assert_eq!(config.segment_bytes, bytes, "{text}");
    }
    assert_eq!(
        refused_key("sf_max_segment_bytes=1073741825"),
        "sf_max_segment_bytes"
    );
}

#[test]
fn sizes_take_binary_suffixes_and_nothing_else() {
    for (text, bytes) in [
        ("1G", 1_u64 << 30),
        ("1g", 1 << 30),
        ("1gb", 1 << 30),
        ("2GB", 2 << 30),
        ("400M", 400 << 20),
        ("10T", 10 << 40),
        ("2097152k", 2 << 30),
        ("134217728b", 128 << 20),
    ] {
        assert_eq!(
            parse(&format!("sf_max_total_bytes={text}")).total_bytes,
            bytes,
            "{text}"
        );
    }
    for text in [
        "0",
        "-1",
        "1.5G",
        "1GiB",
        "4mib",
        "10 G",
        "18446744073709551616",
        "",
        "k",
        "b",
        "16777216t",
        "+1g",
        "1e9",
        "0x10",
        "1kk",
        "1bb",
        "١g",
    ] {
        let key = refused_key(&format!("sf_max_total_bytes={text}"));
        assert_eq!(key, "sf_max_total_bytes", "{text}");
    }
}

#[test]
fn addresses_accumulate_in_order() {
    let endpoints = |text: &str| {
        let config = Config::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        config
            .endpoints
            .iter()
            .map(|e| format!("{} {}", e.host, e.port))
            .collect::<Vec<_>>()
    };
    assert_eq!(endpoints("ws::addr=a"), ["a 9000"]);
    assert_eq!(
        endpoints("WS::addr=a:1, b ,[::1]:65535,[::2];"),
        ["a 1", "b 9000", "::1 65535", "::2 9000"]
    );
    assert_eq!(
        endpoints("ws::addr=a;sender_id=x;addr=b:2;addr=c,d;"),
        ["a 9000", "b 2", "c 9000", "d 9000"]
    );
    assert_eq!(
        Config::parse("ws::addr=a;username=u;password=p;;addr=w;addr=b")
            .unwrap()
            .auth,
        Auth::Basic {
            username: "u".to_owned(),
            password: text("p;addr=w")
        }
    );
}

#[test]
fn bad_addresses_are_refused() {
    for list in [
        "",
        "a,",
        ",a",
        "a:",
        ":1",
        "a:0",
        "a:65536",
        "a:x",
        "a:+1",
        "::1",
        "a:1:2",
        "[::1",
        "[::1]x",
        "[::1]:",
        "[a]:1",
        "a b",
        "http://a:9000",
        "u@a",
        "a,a",
        "a:9000,A",
        "[::1],[::1]",
    ] {
        assert_eq!(refusal(&format!("ws::addr={list};")).0, "addr", "{list:?}");
    }
    assert_eq!(refusal("ws::sender_id=x;").0, "addr");
    assert_eq!(refusal("ws::").0, "addr");
    assert_eq!(refusal("ws").0, "addr");
    assert_eq!(refusal("ws::addr=a;addr=a;").0, "addr");
}

#[test]
fn schemas_and_grammar() {
    for text in [
        "",
        "::",
        "ws:addr=a",
        "qwpws::addr=a",
        "http::addr=a",
        "ws::addr",
        "ws::=a",
        "ws::addr=a;sender_id",
        "ws::addr=\u{1}",
        " ws::addr=a",
    ] {
        assert_eq!(refusal(text).0, "connect string", "{text:?}");
    }
    let secure = Config::parse("WSS::addr=a").expect("a good string");
    assert!(secure.tls && secure.endpoints[0].port == 9000);
    assert_eq!(
        refusal("ws::addr=a;sender_id=x;sender_id=x;").0,
        "sender_id"
    );
}

#[test]
fn unknown_keys_are_named() {
    for key in ["Username", "sf_dirr", "sf_max_bytes", "shard", "adr"] {
        assert_eq!(
            refusal(&format!("{BASE}{key}=x")),
            (key.to_owned(), "unknown key".to_owned())
        );
    }
}

#[test]
fn keys_of_other_clients_are_accepted() {
    for rest in [
        "target=any",
        "zone=eu",
        "failover=on",
        "failover_max_attempts=3",
        "compression=zstd",
        "compression_level=3",
        "buffer_pool_size=4",
        "max_batch_rows=100",
        "client_id=me",
        "path=/x",
        "auth=Basic x",
        "max_version=1",
        "query_timeout_ms=1",
        "sender_pool_max=4",
        "acquire_timeout_ms=1",
        "idle_timeout_ms=1",
        "lazy_connect=true",
        "pool_reap=1",
        "catch_up_cap_gap_min_escalation_window_millis=0",
        "qwp_ws_progress=background",
        "init_buf_size=65536",
        "transaction=off",
    ] {
        assert_eq!(parse(rest), parse(""), "{rest}");
    }
}

#[test]
fn features_to_come_are_refused_by_name() {
    for (rest, key) in [
        ("transaction=on", "transaction"),
        ("qwp_ws_progress=manual", "qwp_ws_progress"),
    ] {
        let (named, reason) = refusal(&format!("{BASE}{rest}"));
        assert_eq!(named, key, "{rest}");
        assert!(
            reason.contains("not supported by this version yet"),
            "{rest}: {reason}"
        );
    }
}

#[test]
fn values_out_of_range_are_refused_by_name() {
    for rest in [
        "auth_timeout_ms=0",
        "connect_timeout=0",
        "sf_dir=",
        "sender_id=",
        "sender_id=a/b",
        "sender_id=..",
        "sender_id=a b",
        "sender_id=é",
        "sf_max_segment_bytes=0",
        "sf_durability=none",
        "sf_append_deadline_millis=-1",
        "reconnect_initial_backoff_millis=0",
        "reconnect_max_backoff_millis=0",
        "reconnect_max_duration_millis=x",
        "initial_connect_retry=maybe",
        "close_flush_timeout_millis=-",
        "request_durable_ack=maybe",
        "drain_orphans=1",
        "max_background_drainers=-1",
        "error_inbox_capacity=15",
        "connection_listener_inbox_capacity=0",
        "max_frame_rejections=0",
        "max_frame_rejections=4294967296",
        "poison_min_escalation_window_millis=-1",
        "max_name_len=0",
        "max_buf_size=1m",
        "max_buf_size=0",
        "init_buf_size=104857601",
        "on_server_error=drop",
        "qwp_ws_progress=x",
        "cores=x",
        "cores=-1",
        "cores=1-0",
        "pin=yes",
        "spin_micros=-1",
        "idle=sleep",
        "intake_ring_bytes=3m",
        "symbol_dict_max=0",
        "symbol_dict_max=1000001",
        "symbol_dict_reset_threshold=0",
        "symbol_dict_reset_threshold=1000001",
        "intake_ring_bytes=2k",
        "intake_ring_bytes=2g",
        "lock_retry_millis=1.5",
        "memory_budget_bytes=0",
        "lock_retry_millis=9223372036855",
    ] {
        let key = rest.split_once('=').unwrap().0;
        assert_eq!(refused_key(rest), key, "{rest}");
    }
    assert_eq!(
        refused_key(&format!("sender_id={}", "x".repeat(300))),
        "sender_id"
    );
}

#[test]
fn durability_needs_a_directory_and_the_interval_needs_periodic() {
    for (text, durability) in [
        ("memory", Durability::Memory),
        ("Periodic", Durability::Periodic),
        ("flush", Durability::Flush),
        ("APPEND", Durability::Append),
    ] {
        assert_eq!(
            parse(&format!("sf_dir=/d;sf_durability={text}")).durability,
            durability
        );
    }
    for text in ["periodic", "flush", "append"] {
        assert_eq!(
            refused_key(&format!("sf_durability={text}")),
            "sf_durability"
        );
    }
    let interval = "sf_sync_interval_millis=20";
    let config = parse(&format!("sf_dir=/d;sf_durability=periodic;{interval}"));
    assert_eq!(config.sync_interval, Duration::from_millis(20));
    assert_eq!(
        refused_key(&format!("sf_dir=/d;{interval}")),
        "sf_sync_interval_millis"
    );
    let zero = "sf_dir=/d;sf_durability=periodic;sf_sync_interval_millis=0";
    assert_eq!(refused_key(zero), "sf_sync_interval_millis");
}

#[test]
fn the_first_connect_follows_explicit_reconnect_keys() {
    for (rest, expected) in [
        ("", InitialConnect::Off),
        ("reconnect_max_backoff_millis=5000", InitialConnect::Sync),
        ("reconnect_max_duration_millis=0", InitialConnect::Sync),
        (
            "reconnect_max_backoff_millis=5000;initial_connect_retry=off",
            InitialConnect::Off,
        ),
        ("initial_connect_retry=False", InitialConnect::Off),
        ("initial_connect_retry=on", InitialConnect::Sync),
        ("initial_connect_retry=true", InitialConnect::Sync),
        ("initial_connect_retry=SYNC", InitialConnect::Sync),
        ("initial_connect_retry=Async", InitialConnect::Async),
    ] {
        assert_eq!(parse(rest).initial_connect, expected, "{rest}");
    }
}

#[test]
fn waits_may_be_switched_off() {
    for (text, expected) in [
        ("0", None),
        ("-1", None),
        ("-5", None),
        ("7", Some(Duration::from_millis(7))),
    ] {
        let config = parse(&format!("close_flush_timeout_millis={text}"));
        assert_eq!(config.close_flush_timeout, expected, "{text}");
    }
    assert_eq!(
        parse("sf_append_deadline_millis=0").append_deadline,
        Duration::ZERO
    );
    assert_eq!(parse("lock_retry_millis=0").lock_retry, Duration::ZERO);
}

#[test]
fn own_keys_are_taken_over() {
    let config = parse(
        "cores=3;pin=off;spin_micros=0;idle=Spin;intake_ring_bytes=4k;\
        memory_budget_bytes=1m;max_name_len=16;max_buf_size=4096",
    );
    assert_eq!((config.shards.cores, config.idle_spin), (Cores::Off, true));
    assert_eq!(
        (config.spin, config.intake.ring_bytes),
        (Duration::ZERO, 4096)
    );
    assert_eq!(
        (config.memory_budget_bytes, config.max_name_bytes),
        (1 << 20, 16)
    );
    assert_eq!(config.max_buf_bytes, 4096);
}

#[test]
fn credentials_come_whole_or_not_at_all() {
    let basic = |username: &str, password: &str| Auth::Basic {
        username: username.to_owned(),
        password: text(password),
    };
    assert_eq!(parse("username=u;password=p;;w").auth, basic("u", "p;w"));
    assert_eq!(parse("user=u;pass=").auth, basic("u", ""));
    assert_eq!(parse("token=t").auth, Auth::Bearer(text("t")));
    for (rest, key) in [
        ("username=u", "password"),
        ("password=p", "username"),
        ("username=u;password=p;token=t", "token"),
        ("token=", "token"),
        ("username=u;user=u", "user"),
        ("password=p;pass=p", "pass"),
        ("username=;password=p", "username"),
        ("username=a:b;password=p", "username"),
        ("password=p;token=t", "token"),
        ("token=t;token_file=/t", "token_file"),
        ("token_file=", "token_file"),
        ("username=u;password=p;password_file=/p", "password_file"),
        ("username=u;pass=p;password_file=/p", "password_file"),
        ("password_file=/p", "username"),
        ("username=u;token_file=/t", "token"),
        ("on_auth_error=yes", "on_auth_error"),
    ] {
        assert_eq!(refused_key(rest), key, "{rest}");
    }
}

#[test]
fn credentials_may_be_files() {
    let file = |path: &str| SecretSource::File(path.into());
    let token = parse("token_file=/run/token").auth;
    assert_eq!(token, Auth::Bearer(file("/run/token")));
    let password = parse("username=u;password_file=p").auth;
    assert_eq!(password.file(), Some(&"p".into()));
    assert!(parse("on_auth_error=Retry").security.retry_auth);
    assert!(!parse("on_auth_error=terminal").security.retry_auth);
}

#[test]
fn tls_keys_choose_whom_to_trust() {
    let secure = |rest: &str| {
        let text = format!("wss::addr=h;{rest}");
        Config::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
    };
    for (rest, roots, verify) in [
        ("", Roots::Webpki, true),
        ("tls_verify=on", Roots::Webpki, true),
        ("tls_ca=webpki_roots", Roots::Webpki, true),
        ("tls_ca=os_roots", Roots::Os, true),
        ("tls_ca=webpki_and_os_roots", Roots::WebpkiAndOs, true),
        ("tls_roots=/r", Roots::PemFile("/r".into()), true),
        (
            "tls_ca=pem_file;tls_roots=r",
            Roots::PemFile("r".into()),
            true,
        ),
        ("tls_verify=unsafe_off", Roots::Webpki, false),
    ] {
        let Security {
            roots: got,
            verify: checked,
            ..
        } = secure(rest).security;
        assert_eq!((got, checked), (roots, verify), "{rest}");
    }
    for (rest, key, words) in [
        ("tls_verify=off", "tls_verify", "on or unsafe_off"),
        (
            "tls_verify=unsafe_off;tls_roots=/r",
            "tls_verify",
            "contradicts tls_roots",
        ),
        ("tls_ca=x", "tls_ca", "pem_file"),
        ("tls_ca=pem_file", "tls_ca", "needs tls_roots"),
        (
            "tls_ca=os_roots;tls_roots=/r",
            "tls_ca",
            "contradicts tls_roots",
        ),
        ("tls_roots=", "tls_roots", "path"),
        (
            "tls_roots_password=hunter2",
            "tls_roots_password",
            "needs tls_roots",
        ),
        (
            "tls_roots=/r.jks;tls_roots_password=hunter2",
            "tls_roots_password",
            "keytool",
        ),
        (
            "tls_roots=/r.p12;tls_roots_password=hunter2",
            "tls_roots_password",
            "openssl pkcs12",
        ),
    ] {
        let (named, reason) = refusal(&format!("wss::addr=h;{rest}"));
        assert_eq!(named, key, "{rest}");
        assert!(
            reason.contains(words) && !reason.contains("hunter2"),
            "{rest}: {reason}"
        );
    }
    for key in ["tls_verify", "tls_ca", "tls_roots", "tls_roots_password"] {
        let (named, reason) = refusal(&format!("{BASE}{key}=on"));
        assert_eq!(
            (named.as_str(), reason.as_str()),
            (key, "needs the schema wss::")
        );
    }
}

#[test]
fn secrets_are_never_printed() {
    let config = parse("username=u;password=hunter2");
    assert!(!format!("{config:?}").contains("hunter2"));
    assert!(!format!("{:?}", parse("token=hunter2")).contains("hunter2"));
    for rest in [
        "password=hunter2",
        "token=hunter2;username=u;password=hunter2",
        "username=u;password=hunter2;idle=x",
        "username=:;password=hunter2",
        "password=hunter2;password=hunter2",
        "password=hunter2\u{1}",
    ] {
        let (key, reason) = refusal(&format!("{BASE}{rest}"));
        assert!(
            !key.contains("hunter2") && !reason.contains("hunter2"),
            "{rest}: {key}: {reason}"
        );
    }
}

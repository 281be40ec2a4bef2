//! The one list of keys: whatever the parser takes is here, and whatever is here has its row in
//! docs/configuration.md. Tests hold the three together; a key that is taken and not listed
//! fails the first test that parses anything.

/// A key of the connect string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Key {
    /// Its name; a `*` at the end stands for any rest.
    pub name: &'static str,
    /// What it is when left out, as one would write it; empty where there is no such value.
    pub default: &'static str,
}

const fn key(name: &'static str, default: &'static str) -> Key {
    Key { name, default }
}

/// Every key that [`Config::parse`](super::Config::parse) knows, the ignored ones included.
pub const KEYS: &[Key] = &[
    // Servers and credentials.
    key("addr", ""),
    key("username", ""),
    key("user", ""),
    key("password", ""),
    key("pass", ""),
    key("password_file", ""),
    key("token", ""),
    key("token_file", ""),
    key("on_auth_error", "terminal"),
    key("auth_timeout_ms", "15000"),
    key("connect_timeout", "15000"),
    // TLS.
    key("tls_verify", "on"),
    key("tls_ca", "webpki_roots"),
    key("tls_roots", ""),
    key("tls_roots_password", ""),
    // First connection, reconnecting, giving up.
    key("initial_connect_retry", "off"),
    key("reconnect_initial_backoff_millis", "100"),
    key("reconnect_max_backoff_millis", "5000"),
    key("reconnect_max_duration_millis", "300000"),
    key("max_frame_rejections", "4"),
    key("poison_min_escalation_window_millis", "5000"),
    key("catch_up_cap_gap_min_escalation_window_millis", "300000"),
    key("catchup_cap_gap_min_escalation_window_millis", "300000"),
    key("on_server_error", "auto"),
    key("on_schema_error", "auto"),
    key("on_parse_error", "auto"),
    key("on_internal_error", "auto"),
    key("on_security_error", "auto"),
    key("on_write_error", "auto"),
    key("request_durable_ack", "off"),
    key("durable_ack_keepalive_interval_millis", "200"),
    key("ping_interval_millis", "15000"),
    key("ack_progress_timeout_millis", "60000"),
    key("rejected_dir", ""),
    key("rejected_max_bytes", "1g"),
    key("close_flush_timeout_millis", "5000"),
    // The journal.
    key("sf_dir", ""),
    key("sender_id", "default"),
    key("sf_max_segment_bytes", "4m"),
    key("sf_max_total_bytes", "128m"),
    key("sf_durability", "memory"),
    key("sf_sync_interval_millis", "5000"),
    key("commit_window_micros", "0"),
    key("commit_window_bytes", "256k"),
    key("sf_append_deadline_millis", "30000"),
    key("lock_retry_millis", "500"),
    key("memory_budget_bytes", "64m"),
    // The steward.
    key("sf_spares", "2"),
    key("sf_prefill", "auto"),
    key("sf_min_free_bytes", "0"),
    key("steward_respawn_backoff_millis", "1000"),
    key("steward_respawn_max", "5"),
    key("steward_respawn_window_millis", "60000"),
    key("symbol_dict_max", "1000000"),
    key("symbol_dict_reset_threshold", "500000"),
    // Orphans.
    key("drain_orphans", "off"),
    key("max_background_drainers", "4"),
    key("orphan_scan_interval_millis", "30000"),
    // Events.
    key("error_inbox_capacity", "256"),
    key("connection_listener_inbox_capacity", "64"),
    // Batches.
    key("max_buf_size", "104857600"),
    key("init_buf_size", "65536"),
    key("max_name_len", "127"),
    key("auto_flush", "off"),
    key("auto_flush_rows", ""),
    key("auto_flush_bytes", ""),
    key("auto_flush_interval", ""),
    key("at_now", ""),
    key("row_seq", ""),
    key("receive_time", ""),
    key("timestamp_past_max", ""),
    key("timestamp_future_max", ""),
    key("transaction", "off"),
    key("qwp_ws_progress", "background"),
    // The shards.
    key("shards", "1"),
    key("route_by", "table"),
    key("adopt", "before"),
    key("cores", "auto"),
    key("pin", "on"),
    key("spin_micros", "50"),
    key("idle", "park"),
    key("intake", ""),
    key("intake_dir", ""),
    key("intake_ring_bytes", "1m"),
    key("intake_total_bytes", "1g"),
    // Of query clients, pools and other languages.
    key("target", ""),
    key("zone", ""),
    key("failover", ""),
    key("failover_*", ""),
    key("compression", ""),
    key("compression_level", ""),
    key("buffer_pool_size", ""),
    key("max_batch_rows", ""),
    key("client_id", ""),
    key("path", ""),
    key("auth", ""),
    key("max_version", ""),
    key("query_*", ""),
    key("sender_pool_*", ""),
    key("acquire_timeout_ms", ""),
    key("idle_timeout_ms", ""),
    key("lazy_connect", ""),
    key("pool_reap", ""),
];

/// Whether a key has its place in [`KEYS`].
pub(super) fn is_listed(name: &str) -> bool {
    KEYS.iter().any(|key| match key.name.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => key.name == name,
    })
}

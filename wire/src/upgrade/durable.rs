//! What `X-QWP-Request-Durable-Ack` asks for and what `X-QWP-Durable-Ack` grants.

/// A durable acknowledgement as a client may ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DurableTier {
    /// The released grammar, `true`: uploaded to the object store.
    On,
    /// Newer grammar: the sequencer's record was synced on the server.
    Local,
    /// Newer grammar: uploaded to the object store.
    Replicated,
    /// Both of the newer tiers.
    LocalAndReplicated,
}

impl DurableTier {
    /// Value of the request header.
    pub const fn ask(self) -> &'static str {
        match self {
            Self::On => "true",
            Self::Local => "local",
            Self::Replicated => "replicated",
            Self::LocalAndReplicated => "local,replicated",
        }
    }

    /// Value of the response header that grants it.
    pub const fn grant(self) -> &'static str {
        match self {
            Self::On => "enabled",
            Self::Local => "local",
            Self::Replicated => "replicated",
            Self::LocalAndReplicated => "local,replicated",
        }
    }

    /// What a request header asks for; any value outside the grammar asks for nothing.
    pub fn from_ask(value: &str) -> Option<Self> {
        let is = |token: &str| value.eq_ignore_ascii_case(token);
        if is("true") {
            Some(Self::On)
        } else if is("local") {
            Some(Self::Local)
        } else if is("replicated") {
            Some(Self::Replicated)
        } else if is("local,replicated") || is("replicated,local") {
            Some(Self::LocalAndReplicated)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_tokens_ask() {
        assert_eq!(DurableTier::from_ask("TRUE"), Some(DurableTier::On));
        let both = Some(DurableTier::LocalAndReplicated);
        assert_eq!(DurableTier::from_ask("replicated,local"), both);
        for other in ["", "1", "on", "true ", "local, replicated", "local,local"] {
            assert_eq!(DurableTier::from_ask(other), None, "{other:?}");
        }
    }
}

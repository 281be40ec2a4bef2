//! A look at the rows that a sink stores, for whoever keeps an account of them.

use std::fmt;
use std::sync::Arc;

use forebay_wire::decode::Table;

type Look = dyn Fn(&Table<'_>) + Send + Sync;

/// Called with every table block that was applied, on the thread of its connection and before the
/// OK that covers it.
#[derive(Clone)]
pub struct Watch(Arc<Look>);

impl Watch {
    /// A watch that calls `look`.
    pub fn new(look: impl Fn(&Table<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(look))
    }

    pub(super) fn look(&self, block: &Table<'_>) {
        (self.0)(block);
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}

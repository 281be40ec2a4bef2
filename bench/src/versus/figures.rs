//! What one measurement gave: numbers by name, one line of JSON between child and parent.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Numbers by name; the name ends with the unit.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Figures(BTreeMap<String, f64>);

impl Figures {
    pub(super) fn set(&mut self, name: &str, value: f64) {
        self.0.insert(name.to_owned(), value);
    }

    pub(super) fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    pub(super) fn to_json(&self) -> Value {
        let numbers = self.0.iter();
        let numbers = numbers.map(|(name, value)| (name.clone(), Value::from(*value)));
        Value::Object(numbers.collect::<Map<_, _>>())
    }

    /// Reads the last line of what a child printed.
    pub(super) fn parse(said: &str) -> Option<Self> {
        let line = said.lines().next_back()?;
        let Value::Object(numbers) = serde_json::from_str(line).ok()? else {
            return None;
        };
        let numbers = numbers
            .iter()
            .map(|(name, value)| Some((name.clone(), value.as_f64()?)));
        numbers.collect::<Option<_>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::Figures;

    #[test]
    fn what_a_child_prints_last_is_what_the_parent_reads() {
        let mut figures = Figures::default();
        figures.set("rows_s", 1.5e6);
        figures.set("flush_p99_us", 0.25);
        let said = format!("something else\n{}\n", figures.to_json());
        assert_eq!(Figures::parse(&said), Some(figures));
        assert_eq!(Figures::parse(""), None);
        assert_eq!(Figures::parse("[1]"), None);
    }
}

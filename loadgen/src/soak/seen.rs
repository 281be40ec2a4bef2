//! Which numbers of one series came, in which order.

/// Numbers in order of arrival: ranges, because almost all follow the one before.
#[derive(Debug, Default, Clone)]
pub(crate) struct Seen {
    /// Half-open, ascending, apart from each other.
    ranges: Vec<(u64, u64)>,
    /// Numbers that came again.
    pub(crate) duplicates: u64,
    /// Numbers that came for the first time after a higher one.
    pub(crate) reordered: u64,
}

impl Seen {
    /// A number came.
    pub(crate) fn add(&mut self, number: u64) {
        match self.ranges.last_mut() {
            Some(last) if last.1 == number => last.1 += 1,
            Some(last) if number < last.1 => {
                if self.contains(number) {
                    self.duplicates += 1;
                } else {
                    self.reordered += 1;
                    let place = self.ranges.partition_point(|range| range.0 <= number);
                    self.ranges.insert(place, (number, number + 1));
                }
            }
            _ => self.ranges.push((number, number + 1)),
        }
    }

    /// Whether it came.
    pub(crate) fn contains(&self, number: u64) -> bool {
        let place = self.ranges.partition_point(|range| range.0 <= number);
        place > 0 && number < self.ranges[place - 1].1
    }

    /// How many different numbers came.
    pub(crate) fn count(&self) -> u64 {
        self.ranges.iter().map(|range| range.1 - range.0).sum()
    }

    /// One more than the highest.
    pub(crate) fn end(&self) -> u64 {
        self.ranges.iter().map(|range| range.1).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::Seen;

    #[test]
    fn gaps_repetitions_and_late_numbers_are_told_apart() {
        let mut seen = Seen::default();
        for number in [0, 1, 2, 5, 6, 1, 6, 3, 3, 7, 20] {
            seen.add(number);
        }
        assert_eq!((seen.duplicates, seen.reordered), (3, 1));
        assert_eq!((seen.count(), seen.end()), (8, 21));
        let missing: Vec<u64> = (0..9).filter(|n| !seen.contains(*n)).collect();
        assert_eq!(missing, [4, 8]);
    }
}

//! Geohashes and decimals: values that must agree with the rest of their column in one parameter.

use super::{ColumnBuffer, PushError};
use crate::decimal::Unscaled;
use crate::types::ColumnType;

impl ColumnBuffer {
    /// Adds a GEOHASH of `precision` bits. All values of a batch must have the same precision.
    pub fn push_geohash(&mut self, bits: u64, precision: u8) -> Result<(), PushError> {
        self.expect(ColumnType::Geohash);
        if !(1..=60).contains(&precision) {
            return Err(PushError::GeohashPrecision { precision });
        }
        if bits >> precision != 0 {
            return Err(PushError::GeohashBits { bits, precision });
        }
        if precision != self.parameter {
            if self.values() > 0 {
                return Err(PushError::GeohashMixed {
                    precision,
                    column: self.parameter,
                });
            }
            self.parameter = precision;
        }
        let width = usize::from(precision.div_ceil(8));
        self.data.extend_from_slice(&bits.to_le_bytes()[..width]);
        self.rows += 1;
        Ok(())
    }

    /// Adds a DECIMAL: `unscaled` divided by ten to the power of `scale`.
    ///
    /// A block has one scale, the largest among its values: a value with fewer digits behind the
    /// point is rescaled, and one with more rescales those before it. Either is refused when it
    /// does not fit the column's type.
    pub fn push_decimal(
        &mut self,
        unscaled: impl Into<Unscaled>,
        scale: u8,
    ) -> Result<(), PushError> {
        let Some((width, scale_max)) = self.ty.decimal_limits() else {
            panic!("the column has another type");
        };
        if scale > scale_max {
            return Err(PushError::DecimalScale { scale, scale_max });
        }
        let common = self.parameter.max(scale);
        let overflow = PushError::DecimalOverflow {
            scale: common,
            width,
        };
        let value = scale_to(unscaled.into(), common - scale, width).ok_or(overflow)?;
        if common > self.parameter {
            self.rescale(common - self.parameter, width)
                .ok_or(overflow)?;
            self.parameter = common;
        }
        self.data.extend_from_slice(&value.to_le_bytes()[..width]);
        self.rows += 1;
        Ok(())
    }

    /// Multiplies all values by a power of ten, or changes none.
    fn rescale(&mut self, digits: u8, width: usize) -> Option<()> {
        let scaled = |cell: &[u8]| scale_to(Unscaled::from_le_slice(cell), digits, width);
        if self
            .data
            .chunks_exact(width)
            .any(|cell| scaled(cell).is_none())
        {
            return None;
        }
        for cell in self.data.chunks_exact_mut(width) {
            cell.copy_from_slice(&scaled(cell)?.to_le_bytes()[..width]);
        }
        Some(())
    }
}

fn scale_to(value: Unscaled, digits: u8, width: usize) -> Option<Unscaled> {
    let scaled = if digits == 0 {
        value
    } else {
        value.scaled_up(digits)?
    };
    scaled.fits(width).then_some(scaled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_geohash_leaves_the_column_alone() {
        let mut column = ColumnBuffer::new(ColumnType::Geohash);
        column.push_geohash(0x16, 5).unwrap();
        let mixed = column.push_geohash(0x16, 6);
        assert_eq!(
            mixed,
            Err(PushError::GeohashMixed {
                precision: 6,
                column: 5
            })
        );
        let wide = column.push_geohash(32, 5);
        assert_eq!(
            wide,
            Err(PushError::GeohashBits {
                bits: 32,
                precision: 5
            })
        );
        assert_eq!(
            column.push_geohash(0, 0),
            Err(PushError::GeohashPrecision { precision: 0 })
        );
        assert_eq!(
            column.push_geohash(0, 61),
            Err(PushError::GeohashPrecision { precision: 61 })
        );
        assert_eq!(column.rows(), 1);
        column.clear();
        assert_eq!(column.push_geohash(0x16, 6), Ok(()));
    }

    #[test]
    fn a_larger_scale_rescales_what_came_before_or_is_refused() {
        let mut column = ColumnBuffer::new(ColumnType::Decimal64);
        column.push_decimal(99_i64, 1).unwrap();
        column.push_decimal(-1_i64, 3).unwrap();
        let mut out = vec![0; column.encoded_len()];
        column.encode(&mut out);
        let mut expected = vec![0, 3];
        expected.extend_from_slice(&9900_i64.to_le_bytes());
        expected.extend_from_slice(&(-1_i64).to_le_bytes());
        assert_eq!(out, expected);
        let refused = column.push_decimal(1_i64, 18);
        assert_eq!(
            refused,
            Err(PushError::DecimalOverflow {
                scale: 18,
                width: 8
            })
        );
        let refused = column.push_decimal(1_i64, 19);
        assert_eq!(
            refused,
            Err(PushError::DecimalScale {
                scale: 19,
                scale_max: 18
            })
        );
        let mut same = vec![0; column.encoded_len()];
        column.encode(&mut same);
        assert_eq!(same, expected);
    }
}

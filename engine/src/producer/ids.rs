//! Handles as plain numbers: of a table, a column, a symbol.

use forebay_wire::types::ColumnType;

/// A table, from [`Producer::prepare`](crate::Producer::prepare).
///
/// Desk and place in one number, so that one comparison tells whether a column belongs to the
/// open row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TableId(u64);

impl TableId {
    /// No table of any producer.
    pub(super) const NONE: Self = Self(u64::MAX);

    pub(super) fn new(owner: u32, place: usize) -> Self {
        let place = u32::try_from(place).expect("tables are bounded");
        Self(u64::from(owner) << 32 | u64::from(place))
    }

    /// The desk that gave it.
    #[inline]
    pub(super) fn owner(self) -> u32 {
        u32::try_from(self.0 >> 32).expect("32 bits")
    }

    /// Its place at that desk.
    #[inline]
    pub(super) fn place(self) -> usize {
        usize::try_from(self.0 & u64::from(u32::MAX)).expect("32 bits")
    }
}

/// A column of a table, from [`Producer::prepare_column`](crate::Producer::prepare_column).
///
/// Two numbers, which travel in registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ColumnId {
    pub(super) table: TableId,
    /// Place in the table in the lower half, above it the code of the column's type.
    code: u32,
}

impl ColumnId {
    pub(super) fn new(table: TableId, place: usize, ty: ColumnType) -> Self {
        let place = u16::try_from(place).expect("columns are bounded");
        let code = u32::from(ty.code()) << 16 | u32::from(place);
        Self { table, code }
    }

    /// Its place in the table.
    #[inline]
    pub(super) fn place(self) -> usize {
        usize::try_from(self.code & u32::from(u16::MAX)).expect("16 bits")
    }

    /// Whether it has this type.
    #[inline]
    pub(super) fn is(self, ty: ColumnType) -> bool {
        self.code >> 16 == u32::from(ty.code())
    }
}

/// A symbol, from [`Producer::intern`](crate::Producer::intern).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Symbol {
    pub(super) owner: u32,
    pub(super) id: u32,
}

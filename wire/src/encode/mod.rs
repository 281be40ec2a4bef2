//! Writing table blocks: columns that grow row by row, and the head of a block.
//!
//! A producer fills one [`ColumnBuffer`] per column and calls [`ColumnBuffer::clear`] after every
//! batch: once the buffers have grown to a batch's size, no row allocates. A column that first
//! appears at row k gets [`ColumnBuffer::push_nulls`]`(k)`; a row that is refused half-way is
//! undone by [`ColumnBuffer::truncate`].
//!
//! ```
//! use forebay_wire::encode::{self, ColumnBuffer};
//! use forebay_wire::types::ColumnType;
//!
//! let mut price = ColumnBuffer::new(ColumnType::Double);
//! price.push_f64(2615.54);
//! price.push_null();
//! let columns = [("price", price.column_type())];
//! let head = encode::block_head_len("trades", price.rows(), columns.into_iter());
//! let mut block = vec![0; head + price.encoded_len()];
//! let used = encode::write_block_head(&mut block, "trades", price.rows(), columns.into_iter());
//! assert_eq!(used + price.encode(&mut block[used..]), block.len());
//! ```

mod block;
mod cells;
mod column;
mod error;
mod form;
mod nulls;
mod numbers;
mod slices;
mod validity;
mod varlen;
mod write;

pub use block::{block_head_len, write_block_head};
pub use cells::CellForm;
pub use column::ColumnBuffer;
pub use error::PushError;
pub use slices::{SliceColumn, Values};
pub use validity::Validity;
pub use varlen::{ARRAY_BYTES_MAX, ARRAY_DIM_MAX, ARRAY_DIMS_MAX, array_elements};

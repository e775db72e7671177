//! Rules of the medium that were broken.

/// Something was asked of the medium that it cannot do: a fault of the FTL above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NandError {
    /// Pages of an erase block are programmed in order, from the first on.
    #[error(
        "program of page {page} of erase block {block} out of order: page {next} is the next one; \
         program pages in order, or erase first"
    )]
    OutOfOrder {
        /// The erase block.
        block: u32,
        /// The page that was to be programmed.
        page: u32,
        /// The one whose turn it is.
        next: u32,
    },
    /// A page can be read only once it has been programmed.
    #[error("read of page {page} of erase block {block}, which is not programmed since its erase")]
    NotProgrammed {
        /// The erase block.
        block: u32,
        /// The page.
        page: u32,
    },
    /// The erase block, or its page, is not there.
    #[error("there is no page {page} of erase block {block} on this NAND")]
    NoSuchPage {
        /// The erase block.
        block: u32,
        /// The page.
        page: u32,
    },
    /// The erase block is retired.
    #[error("erase block {block} is retired: it can only be read")]
    Retired {
        /// The erase block.
        block: u32,
    },
}

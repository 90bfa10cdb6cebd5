//! The results of a run: the numbers (also as JSON) and their text. It measures nothing.

mod output;
mod run_report;
mod second_row;
mod table;

pub use output::print_result;
pub(crate) use output::{live_line, progress, write_json};
pub use run_report::{
    ByHashing, CauseRow, GeneratorReport, KindRow, MetricRow, Quantiles, RunReport, ServerRow,
};
pub use second_row::SecondRow;
pub use table::render;
pub(crate) use table::{milliseconds, thousands};

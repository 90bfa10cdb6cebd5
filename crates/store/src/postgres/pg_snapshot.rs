//! A snapshot of PostgreSQL: which transactions had ended when it was taken.
//!
//! Two snapshots define exactly which rows of the log have appeared between them, however late their
//! transactions committed and however long another one still runs. This is true on a primary. In the
//! snapshot of a standby only the horizon is reliable, not the list of running transactions.

use std::fmt::Write as _;

/// A snapshot: `xmin:xmax:running,running,…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PgSnapshot {
    /// Every transaction before this one had ended.
    xmin: u64,
    /// None from this one on had.
    xmax: u64,
    /// Those between that had not, in order.
    xip: Vec<u64>,
}

impl PgSnapshot {
    pub(crate) fn parse(text: &str) -> Option<PgSnapshot> {
        let mut parts = text.split(':');
        let (xmin, xmax) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let listed = parts.next()?.split(',').filter(|number| !number.is_empty());
        let mut xip = listed.map(|number| number.parse().ok()).collect::<Option<Vec<u64>>>()?;
        xip.sort_unstable();
        (parts.next().is_none() && xmin <= xmax).then_some(PgSnapshot { xmin, xmax, xip })
    }

    /// True when the transaction had ended.
    pub(crate) fn includes(&self, xid: u64) -> bool {
        xid < self.xmin || (xid < self.xmax && self.xip.binary_search(&xid).is_err())
    }

    /// True when every transaction before `xid` had ended.
    pub(crate) fn includes_all_before(&self, xid: u64) -> bool {
        xid <= self.xmax && self.xip.first().is_none_or(|first| *first >= xid)
    }

    /// Behind it nothing will appear any more; it never goes back.
    pub(crate) fn xmin(&self) -> u64 {
        self.xmin
    }

    pub(crate) fn xmax(&self) -> u64 {
        self.xmax
    }

    /// The running ones as an array of PostgreSQL.
    pub(crate) fn xip_array(&self) -> String {
        let mut text = String::from("{");
        for (index, xid) in self.xip.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let _ = write!(text, "{comma}{xid}");
        }
        text.push('}');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ran_is_not_seen_and_what_came_later_neither() {
        let seen = PgSnapshot::parse("10:20:12,10,15").expect("reads");
        let held: Vec<u64> = (8..22).filter(|xid| seen.includes(*xid)).collect();
        assert_eq!(held, [8, 9, 11, 13, 14, 16, 17, 18, 19]);
        assert_eq!((seen.xmin(), seen.xmax(), seen.xip_array()), (10, 20, "{10,12,15}".to_owned()));
        let whole: Vec<u64> = (8..22).filter(|xid| seen.includes_all_before(*xid)).collect();
        assert_eq!(whole, [8, 9, 10]);
        let idle = PgSnapshot::parse("20:20:").expect("reads");
        assert!(idle.includes_all_before(20) && !idle.includes_all_before(21));
        assert_eq!(PgSnapshot::parse("7:7:").expect("reads").xip_array(), "{}");
    }

    #[test]
    fn what_is_no_snapshot_is_refused() {
        for text in ["", "7", "7:7", "8:7:", "7:8:x", "7:8::", "-1:8:"] {
            assert_eq!(PgSnapshot::parse(text), None, "{text}");
        }
    }
}

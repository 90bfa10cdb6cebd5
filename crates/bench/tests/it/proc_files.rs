//! Samples of `/proc` and of `/metrics` are read.

use bench::measure::{
    MemoryUse, measure_fsync, parse_cpu_times, parse_memory, parse_metrics, parse_process_cpu,
};

#[test]
fn cpu_of_a_process_with_a_difficult_name() {
    let stat = "4242 (a b) c) S 1 4242 4242 0 -1 4194304 900 0 0 0 731 269 5 7 20 0 4 0 100 1000 50";
    assert_eq!(parse_process_cpu(stat), Some(1_000));
}

#[test]
fn memory_of_a_process() {
    let status = "Name:\tsarsen\nVmPeak:\t  9 kB\nVmHWM:\t   65536 kB\nVmRSS:\t   32768 kB\nThreads:\t4\n";
    let expected = MemoryUse { resident_bytes: 32 << 20, peak_bytes: 64 << 20 };
    assert_eq!(parse_memory(status), Some(expected));
    assert_eq!(parse_memory("Name:\tzombie\n"), None);
}

#[test]
fn steal_and_work_of_the_machine() {
    let before =
        parse_cpu_times("cpu  100 0 100 700 0 0 0 100 0 0\ncpu0 1 2 3\ncpu1 1 2 3\nintr 5\n").unwrap();
    let after =
        parse_cpu_times("cpu  200 0 150 1540 0 0 0 110 9 9\ncpu0 1 2 3\ncpu1 1 2 3\nintr 5\n").unwrap();
    assert_eq!(after.steal_percent_since(&before), 1.0);
    assert_eq!(after.cores_busy_since(&before), 0.3, "of two cores");
}

#[test]
fn metrics_of_the_store() {
    let text = "# HELP sarsen_store_commands_total x\n\
        sarsen_store_commands_total 1200\n\
        sarsen_store_sheds_total{lane=\"writer thread\"} 3 1700000000000\n\
        sarsen_store_batch_commands_bucket{le=\"8\"} 7\n\
        sarsen_store_wal_bytes_max 7.4e7\n\
        http_requests_total 9\n";
    let samples = parse_metrics(text);
    let names: Vec<&str> = samples.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "sarsen_store_commands_total",
            "sarsen_store_sheds_total{lane=\"writer thread\"}",
            "sarsen_store_wal_bytes_max"
        ]
    );
    assert_eq!(samples["sarsen_store_sheds_total{lane=\"writer thread\"}"], 3.0);
    assert_eq!(samples["sarsen_store_wal_bytes_max"], 74_000_000.0);
}

#[test]
fn fsync_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let cost = measure_fsync(folder.path()).unwrap();
    assert!(cost.writes > 0 && cost.p50_us <= cost.p99_9_us);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

//! Metrics in Prometheus' text format (exposition format 0.0.4).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Upper bounds of the classes of search times, in seconds.
const BOUNDS: [f64; 12] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0,
];

/// What is counted. Labels are routes of the table and statuses: their number is bounded.
#[derive(Default)]
pub(crate) struct Metrics {
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    searches: Mutex<Searches>,
    /// Searches and uploads that were turned away because too many waited.
    pub(crate) busy: AtomicU64,
    /// Connections that were turned away.
    pub(crate) turned_away: AtomicU64,
    /// Connections that are open.
    pub(crate) connections: AtomicI64,
    /// Bytes of recordings sent.
    pub(crate) audio_bytes: AtomicU64,
}

#[derive(Default)]
struct Searches {
    /// Of each class alone.
    counts: [u64; BOUNDS.len()],
    total: u64,
    seconds: f64,
}

impl Metrics {
    pub(crate) fn request(&self, route: &'static str, status: u16) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((route, status)).or_default() += 1;
    }

    pub(crate) fn search(&self, time: Duration) {
        let seconds = time.as_secs_f64();
        let mut searches = self.searches.lock().unwrap_or_else(PoisonError::into_inner);
        searches.total += 1;
        searches.seconds += seconds;
        if let Some(class) = BOUNDS.iter().position(|&bound| seconds <= bound) {
            searches.counts[class] += 1;
        }
    }

    /// The text; `library` are its files and windows.
    pub(crate) fn text(&self, library: (u64, u64)) -> String {
        let mut out = String::new();
        let head = |out: &mut String, name: &str, kind: &str, help: &str| {
            out.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        };
        head(
            &mut out,
            "hark_requests_total",
            "counter",
            "Requests by route and status.",
        );
        for ((route, status), n) in self
            .requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
        {
            out.push_str(&format!(
                "hark_requests_total{{route=\"{route}\",status=\"{status}\"}} {n}\n"
            ));
        }
        head(
            &mut out,
            "hark_search_seconds",
            "histogram",
            "Time that searches took, without waiting.",
        );
        {
            let searches = self.searches.lock().unwrap_or_else(PoisonError::into_inner);
            let mut below = 0;
            for (bound, count) in BOUNDS.iter().zip(searches.counts) {
                below += count;
                out.push_str(&format!("hark_search_seconds_bucket{{le=\"{bound}\"}} {below}\n"));
            }
            let Searches { total, seconds, .. } = *searches;
            out.push_str(&format!(
                "hark_search_seconds_bucket{{le=\"+Inf\"}} {total}\n\
                 hark_search_seconds_sum {seconds}\nhark_search_seconds_count {total}\n"
            ));
        }
        let numbers: [(&str, &str, &str, i128); 6] = [
            (
                "hark_busy_refusals_total",
                "counter",
                "Searches and uploads turned away because too many waited.",
                self.busy.load(Ordering::Relaxed).into(),
            ),
            (
                "hark_connection_refusals_total",
                "counter",
                "Connections turned away because too many were open.",
                self.turned_away.load(Ordering::Relaxed).into(),
            ),
            (
                "hark_connections",
                "gauge",
                "Open connections.",
                self.connections.load(Ordering::Relaxed).into(),
            ),
            (
                "hark_audio_bytes_total",
                "counter",
                "Bytes of recordings sent.",
                self.audio_bytes.load(Ordering::Relaxed).into(),
            ),
            ("hark_files", "gauge", "Files of the library.", library.0.into()),
            (
                "hark_windows",
                "gauge",
                "Windows of the library.",
                library.1.into(),
            ),
        ];
        for (name, kind, help, value) in numbers {
            head(&mut out, name, kind, help);
            out.push_str(&format!("{name} {value}\n"));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_add_up() {
        let metrics = Metrics::default();
        for ms in [1, 1, 4, 30, 20_000] {
            metrics.search(Duration::from_millis(ms));
        }
        metrics.request("/health", 200);
        metrics.request("/health", 200);
        let text = metrics.text((3, 9));
        for line in [
            "hark_search_seconds_bucket{le=\"0.001\"} 2",
            "hark_search_seconds_bucket{le=\"0.005\"} 3",
            "hark_search_seconds_bucket{le=\"0.05\"} 4",
            "hark_search_seconds_bucket{le=\"10\"} 4",
            "hark_search_seconds_bucket{le=\"+Inf\"} 5",
            "hark_search_seconds_count 5",
            "hark_requests_total{route=\"/health\",status=\"200\"} 2",
            "hark_files 3",
            "hark_windows 9",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
    }
}

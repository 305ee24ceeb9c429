//! A small metrics registry with Prometheus text output. Values are atomics that their owners update; the
//! registry only references them.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;

#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn one(&self) {
        self.add(1);
    }

    pub fn add(&self, number: u64) {
        self.0.fetch_add(number, Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    pub fn set(&self, value: i64) {
        self.0.store(value, Relaxed);
    }

    pub fn add(&self, by: i64) {
        self.0.fetch_add(by, Relaxed);
    }

    pub fn get(&self) -> i64 {
        self.0.load(Relaxed)
    }
}

/// Upper bounds of the buckets, in microseconds.
pub(super) const BUCKETS: [u64; 11] = [
    50, 100, 250, 1_000, 5_000, 10_000, 50_000, 100_000, 500_000, 1_000_000, 5_000_000,
];

#[derive(Debug, Default)]
pub struct Histogram {
    /// Counts per bucket, not cumulative; the last bucket is unbounded.
    buckets: [AtomicU64; 12],
    micros: AtomicU64,
}

impl Histogram {
    pub fn observe(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let at = BUCKETS.iter().position(|bound| micros <= *bound);
        if let Some(bucket) = self.buckets.get(at.unwrap_or(BUCKETS.len())) {
            // Only one bucket is incremented; `write` computes the cumulative counts.
            bucket.fetch_add(1, Relaxed);
        }
        self.micros.fetch_add(micros, Relaxed);
    }

    fn write(&self, out: &mut String, name: &str, labels: &str) {
        let comma = if labels.is_empty() { "" } else { "," };
        let mut sum = 0;
        for (bucket, bound) in self
            .buckets
            .iter()
            .zip(BUCKETS.map(Some).iter().chain([&None]))
        {
            // Prometheus expects cumulative counts. The count is their sum, so that both agree in every scrape.
            sum += bucket.load(Relaxed);
            let bound = bound.map_or("+Inf".to_owned(), seconds);
            let _ = writeln!(out, "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {sum}");
        }
        let total = seconds(self.micros.load(Relaxed));
        let _ = writeln!(out, "{name}_sum{} {total}", braced(labels));
        let _ = writeln!(out, "{name}_count{} {sum}", braced(labels));
    }
}

fn seconds(micros: u64) -> String {
    // Integer arithmetic: a float would print rounding errors in the bounds of buckets.
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

fn braced(labels: &str) -> String {
    if labels.is_empty() {
        String::new()
    } else {
        format!("{{{labels}}}")
    }
}

type MetricReader = Box<dyn Fn() -> Option<i64> + Send + Sync>;
/// Returns each value of a label with its gauge.
type SeriesReader = Box<dyn Fn() -> Vec<(String, i64)> + Send + Sync>;

enum MetricSource {
    Counter(Arc<Counter>),
    Gauge(Arc<Gauge>),
    Histogram(Arc<Histogram>),
    Read(MetricReader),
    ReadCounter(MetricReader),
    /// One series for each value that the reader returns. The text is the name of the label.
    ReadSeries(&'static str, SeriesReader),
}

impl MetricSource {
    const fn kind(&self) -> &'static str {
        match self {
            Self::Counter(_) | Self::ReadCounter(_) => "counter",
            Self::Gauge(_) | Self::Read(_) | Self::ReadSeries(..) => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

struct Family {
    name: &'static str,
    help: &'static str,
    series: Vec<(String, MetricSource)>,
}

#[derive(Default)]
pub struct Registry(Mutex<Vec<Family>>);

impl Registry {
    fn add(
        &self,
        name: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
        source: MetricSource,
    ) {
        let labels: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
            .collect();
        let entry = (labels.join(","), source);
        let mut families = self.0.lock();
        // All series of a name must follow its HELP and TYPE lines.
        if let Some(family) = families.iter_mut().find(|family| family.name == name) {
            family.series.push(entry);
        } else {
            families.push(Family {
                name,
                help,
                series: vec![entry],
            });
        }
    }

    /// Registers a counter. Its name must end in `_total`.
    pub fn counter(
        &self,
        name: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
    ) -> Arc<Counter> {
        let counter = Arc::new(Counter::default());
        self.add(
            name,
            help,
            labels,
            MetricSource::Counter(Arc::clone(&counter)),
        );
        counter
    }

    pub fn gauge(
        &self,
        name: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
    ) -> Arc<Gauge> {
        let gauge = Arc::new(Gauge::default());
        self.add(name, help, labels, MetricSource::Gauge(Arc::clone(&gauge)));
        gauge
    }

    pub fn gauge_of(
        &self,
        name: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
        read: impl Fn() -> i64 + Send + Sync + 'static,
    ) {
        self.gauge_if(name, help, labels, move || Some(read()));
    }

    /// Registers a gauge that is read on each scrape and omitted while it has no value.
    pub fn gauge_if(
        &self,
        name: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
        read: impl Fn() -> Option<i64> + Send + Sync + 'static,
    ) {
        self.add(name, help, labels, MetricSource::Read(Box::new(read)));
    }

    /// Registers a gauge whose series come and go: one for each value of a label, read on each scrape.
    pub fn gauge_by(
        &self,
        name: &'static str,
        help: &'static str,
        label: &'static str,
        read: impl Fn() -> Vec<(String, i64)> + Send + Sync + 'static,
    ) {
        self.add(
            name,
            help,
            &[],
            MetricSource::ReadSeries(label, Box::new(read)),
        );
    }

    /// Registers a counter that its owner maintains and that is read on each scrape. Its name must end in
    /// `_total`.
    pub fn counter_of(
        &self,
        name: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
        read: impl Fn() -> i64 + Send + Sync + 'static,
    ) {
        let read = Box::new(move || Some(read()));
        self.add(name, help, labels, MetricSource::ReadCounter(read));
    }

    /// Registers a histogram of durations. Its name must end in `_seconds`.
    pub fn histogram(
        &self,
        name: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
    ) -> Arc<Histogram> {
        let histogram = Arc::new(Histogram::default());
        self.add(
            name,
            help,
            labels,
            MetricSource::Histogram(Arc::clone(&histogram)),
        );
        histogram
    }

    /// Calls `each` with the labels and the value of each counter and gauge of this name. Negative values are zero.
    pub fn read(&self, name: &str, mut each: impl FnMut(&str, u64)) {
        self.visit(name, |labels, source| {
            let value = match source {
                MetricSource::Counter(counter) => Some(counter.get()),
                MetricSource::Gauge(gauge) => u64::try_from(gauge.get()).ok(),
                MetricSource::Read(read) | MetricSource::ReadCounter(read) => {
                    read().and_then(|value| u64::try_from(value).ok())
                }
                MetricSource::Histogram(_) | MetricSource::ReadSeries(..) => None,
            };
            each(labels, value.unwrap_or_default());
        });
    }

    /// Calls `each` with the labels and the buckets of each histogram of this name.
    pub fn read_histogram(&self, name: &str, mut each: impl FnMut(&str, [u64; BUCKETS.len() + 1])) {
        self.visit(name, |labels, source| {
            if let MetricSource::Histogram(histogram) = source {
                each(
                    labels,
                    histogram.buckets.each_ref().map(|one| one.load(Relaxed)),
                );
            }
        });
    }

    fn visit(&self, name: &str, mut each: impl FnMut(&str, &MetricSource)) {
        let families = self.0.lock();
        let family = families.iter().find(|family| family.name == name);
        for (labels, source) in family.iter().flat_map(|family| &family.series) {
            each(labels, source);
        }
    }

    pub fn render(&self) -> String {
        let mut out = String::new();
        for family in self.0.lock().iter() {
            let name = family.name;
            // All series of a name are of one kind.
            let kind = family
                .series
                .first()
                .map_or("untyped", |(_, source)| source.kind());
            // Writing to a string cannot fail.
            let _ = writeln!(out, "# HELP {name} {}\n# TYPE {name} {kind}", family.help);
            for (labels, source) in &family.series {
                let value = match source {
                    MetricSource::Counter(counter) => counter.get().to_string(),
                    MetricSource::Gauge(gauge) => gauge.get().to_string(),
                    MetricSource::Read(read) | MetricSource::ReadCounter(read) => match read() {
                        Some(value) => value.to_string(),
                        // A series without a value is omitted: 0 would be a false reading.
                        None => continue,
                    },
                    MetricSource::Histogram(histogram) => {
                        histogram.write(&mut out, name, labels);
                        continue;
                    }
                    MetricSource::ReadSeries(label, read) => {
                        for (of, value) in read() {
                            let of = escaped(&of);
                            let _ = writeln!(out, "{name}{{{label}=\"{of}\"}} {value}");
                        }
                        continue;
                    }
                };
                let _ = writeln!(out, "{name}{} {value}", braced(labels));
            }
        }
        out
    }
}

fn escaped(value: &str) -> String {
    // The escapes of the Prometheus text format; the backslash first, since the others add some.
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// A value for a metric; one that is too large is shown as the maximum.
pub fn metric_value(value: impl TryInto<i64>) -> i64 {
    value.try_into().unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_written_in_text_form() {
        let registry = Registry::default();
        let counter = registry.counter("a_total", "A.", &[("route", "x\"y")]);
        counter.add(3);
        registry.counter("a_total", "A.", &[("route", "z")]);
        registry.gauge("b", "B.", &[]).set(-2);
        registry.gauge_of("c", "C.", &[], || 7);
        registry.gauge_if("f", "F.", &[], || None);
        registry.gauge_by("g", "G.", "member", || {
            vec![("x\"".to_owned(), 1), ("y".to_owned(), 2)]
        });
        registry.counter_of("e_total", "E.", &[], || 8);
        let histogram = registry.histogram("d_seconds", "D.", &[]);
        histogram.observe(Duration::from_micros(60));
        histogram.observe(Duration::from_secs(60));
        let text = registry.render();
        for line in [
            "# TYPE a_total counter",
            "a_total{route=\"x\\\"y\"} 3",
            "a_total{route=\"z\"} 0",
            "b -2",
            "g{member=\"x\\\"\"} 1",
            "g{member=\"y\"} 2",
            "c 7",
            "# TYPE e_total counter",
            "e_total 8",
            "d_seconds_bucket{le=\"0.000050\"} 0",
            "d_seconds_bucket{le=\"0.000100\"} 1",
            "d_seconds_bucket{le=\"+Inf\"} 2",
            "d_seconds_sum 60.000060",
            "d_seconds_count 2",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
        assert_eq!(text.matches("# TYPE a_total").count(), 1);
        assert!(!text.contains("\nf "), "{text}");
    }
}

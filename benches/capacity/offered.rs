//! Requests at a rate that does not depend on how fast they are answered (open-loop load).

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::audience::{Audience, MIX, Route, Viewer};
use crate::yardstick::client;
use crate::yardstick::secure::Secure;
use crate::yardstick::server::{Server, own_cpu};

/// The part at the beginning of each step that is not counted.
const WARM_UP: Duration = Duration::from_secs(3);

/// The result at one rate.
pub struct Step {
    pub viewers: f64,
    /// Requests a second that the mix demands.
    offered: f64,
    /// Requests that were answered within the step.
    answered: u64,
    /// Processor time in a second of the server and of the load.
    pub server_cpu: f64,
    load_cpu: f64,
    /// Response times in microseconds by route, sorted.
    times: [Vec<u32>; MIX.len()],
    length: Duration,
}

impl Step {
    pub fn per_second(&self) -> f64 {
        self.answered as f64 / self.length.as_secs_f64()
    }

    /// Returns the part of the offered requests that was answered.
    pub fn kept_up(&self) -> f64 {
        self.per_second() / self.offered
    }

    /// Returns a percentile of the response times of a route, in milliseconds.
    pub fn percentile(&self, route: Route, part: f64) -> Option<f64> {
        let times = MIX.iter().position(|(other, _)| *other == route);
        let times = &self.times[times?];
        let last = times.len().checked_sub(1)?;
        Some(f64::from(times[(last as f64 * part) as usize]) / 1e3)
    }

    pub fn print(&self, name: &str) {
        print!(
            "| {name} | {:.0} | {:.1} % | {:.0} % | {:.0} % |",
            self.offered,
            self.kept_up() * 100.0,
            self.server_cpu * 100.0,
            self.load_cpu * 100.0
        );
        for (route, _) in MIX {
            match (self.percentile(route, 0.5), self.percentile(route, 0.99)) {
                (Some(half), Some(most)) => print!(" {half:.1} / {most:.1} |"),
                _ => print!(" |"),
            }
        }
        println!();
    }
}

impl Audience {
    /// Sends `mix` at the rate of `viewers` viewers.
    pub fn run(
        &mut self,
        server: &Server,
        secure: Option<&Secure>,
        mix: &[(Route, f64)],
        viewers: f64,
        length: Duration,
    ) -> Step {
        let address = client::address_of(server);
        // How many viewers each session stands for.
        let weight = viewers / self.viewers.len() as f64;
        let mix: Vec<_> = mix
            .iter()
            .map(|&(route, between)| (route, between / weight))
            .collect();
        let rate = |&(route, between): &(Route, f64)| route.requests() as f64 / between;
        let offered = mix.iter().map(rate).sum::<f64>() * self.viewers.len() as f64;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let mut all = std::mem::take(&mut self.viewers);
        runtime.block_on(async {
            let mut wires = Vec::with_capacity(all.len());
            for viewer in &mut all {
                let mut wire = Viewer::connect(&address, secure).await;
                // The server closes a connection without a request after ten seconds, which is shorter than some
                // intervals.
                viewer.act(&mut wire, Route::Schedule).await;
                wires.push(wire);
            }
            let counted = Instant::now() + WARM_UP;
            let until = counted + length;
            let mut running = JoinSet::new();
            for (number, (mut viewer, mut wire)) in all.into_iter().zip(wires).enumerate() {
                let mix = mix.clone();
                running.spawn(async move {
                    let times = play(&mut viewer, &mut wire, &mix, number, (counted, until)).await;
                    (viewer, times)
                });
            }
            sleep_until(counted).await;
            let (server_before, load_before) = (server.cpu(), own_cpu());
            sleep_until(until).await;
            let seconds = length.as_secs_f64();
            let mut step = Step {
                viewers,
                offered,
                answered: 0,
                server_cpu: (server.cpu() - server_before).as_secs_f64() / seconds,
                load_cpu: (own_cpu() - load_before).as_secs_f64() / seconds,
                times: Default::default(),
                length,
            };
            for (viewer, times) in running.join_all().await {
                self.viewers.push(viewer);
                for (route, micros) in times {
                    step.answered += route.requests();
                    let index = MIX.iter().position(|(other, _)| *other == route);
                    step.times[index.expect("a route of the mix")].push(micros);
                }
            }
            step.times
                .iter_mut()
                .for_each(|times| times.sort_unstable());
            step
        })
    }
}

/// Plays one viewer until the end. Returns the response time of each action that was answered within the counted time.
async fn play(
    viewer: &mut Viewer,
    wire: &mut Box<dyn crate::yardstick::load::Wire>,
    mix: &[(Route, f64)],
    number: usize,
    (counted, until): (Instant, Instant),
) -> Vec<(Route, u32)> {
    let began = counted - WARM_UP;
    let mut times = Vec::new();
    // Spreads the viewers evenly over each interval, by the golden ratio, differently for each route.
    let phase = |index: usize| ((number + 1) as f64 * (index + 1) as f64 * 0.618_034).fract();
    let mut due: Vec<_> = mix
        .iter()
        .enumerate()
        .map(|(index, &(_, between))| began + Duration::from_secs_f64(between * phase(index)))
        .collect();
    loop {
        let index = (0..due.len()).min_by_key(|&index| due[index]);
        let index = index.expect("the mix has routes");
        let (route, between) = mix[index];
        let wanted = due[index];
        if wanted >= until {
            return times;
        }
        // A request that is due while the previous one is unanswered waits, and its time counts from when it was due.
        // Otherwise a slow server would slow down its own measurement (coordinated omission).
        let late = Instant::now() > wanted;
        sleep_until(wanted).await;
        let from = if late { wanted } else { Instant::now() };
        if Instant::now() >= until {
            return times;
        }
        viewer.act(wire, route).await;
        let now = Instant::now();
        if now >= counted && now < until {
            let micros = (now - from).as_micros();
            times.push((route, u32::try_from(micros).unwrap_or(u32::MAX)));
        }
        due[index] = wanted + Duration::from_secs_f64(between);
    }
}

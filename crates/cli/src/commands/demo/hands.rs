//! What whoever looks at the page can do: asked for there, done here.

use std::time::Duration;

use berth_core::catalog::CapacityType;
use berth_operator::page::{Control, ControlsView, Wish};
use berth_world::cloud::SimulatedCloud;
use berth_world::cloud::weather::{Reclaim, Which};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::shop::Shop;

pub(super) const SPEEDS: [u32; 3] = [1, 5, 20];
/// More could not be seen, and would only be slow.
const REPLICAS_MAX: u32 = 500;
const PRICE_PERCENT_MAX: u32 = 1000;
/// How often it is looked at how things stand: others scale too.
const LOOK: Duration = Duration::from_millis(500);

pub(super) struct Hands {
    shop: Shop,
    cloud: SimulatedCloud,
    speed: watch::Sender<u32>,
    state: watch::Sender<ControlsView>,
}

impl Hands {
    pub(super) fn new(shop: Shop, cloud: SimulatedCloud, speed: watch::Sender<u32>) -> Self {
        let state = ControlsView {
            workloads: Vec::new(),
            price_percent: 100,
            cloud_broken: false,
            speed: *speed.borrow(),
            speeds: SPEEDS.to_vec(),
        };
        Self { shop, cloud, speed, state: watch::Sender::new(state) }
    }

    pub(super) fn state(&self) -> watch::Receiver<ControlsView> {
        self.state.subscribe()
    }

    /// Does what is wished for, for as long as anybody can wish.
    pub(super) async fn work(&self, mut wishes: mpsc::Receiver<Wish>) {
        loop {
            tokio::select! {
                biased;
                wish = wishes.recv() => {
                    let Some(Wish { wanted, answer }) = wish else { return };
                    let done = self.fulfil(wanted).await;
                    self.look().await;
                    // Whoever has left does not hear it.
                    let _ = answer.send(done);
                }
                () = sleep(LOOK) => self.look().await,
            }
        }
    }

    async fn look(&self) {
        if let Ok(workloads) = self.shop.workloads().await {
            self.show(|state| state.workloads = workloads);
        }
    }

    fn show(&self, change: impl FnOnce(&mut ControlsView)) {
        self.state.send_if_modified(|state| {
            let before = state.clone();
            change(state);
            *state != before
        });
    }

    async fn fulfil(&self, wanted: Control) -> Result<(), String> {
        let spot = Which { capacity_type: Some(CapacityType::Spot), ..Which::default() };
        match wanted {
            Control::Scale { namespace, name, replicas } => {
                within("replicas", replicas, 0, REPLICAS_MAX)?;
                self.shop.scale(&namespace, &name, replicas).await
            }
            Control::ReclaimSpot { percent } => {
                let share_permille = within("percent", percent, 1, 100)?.saturating_mul(10);
                let reclaim = Reclaim { which: spot, share_permille, ..Reclaim::default() };
                match self.cloud.reclaim_now(&reclaim) {
                    0 => Err("there is no machine on spot that has no notice yet".to_owned()),
                    _ => Ok(()),
                }
            }
            Control::Cloud { broken } => {
                self.cloud.cut_off(broken);
                self.show(|state| state.cloud_broken = broken);
                Ok(())
            }
            Control::Price { percent } => {
                within("percent", percent, 1, PRICE_PERCENT_MAX)?;
                self.cloud.reprice(&spot, percent.saturating_mul(10));
                self.show(|state| state.price_percent = percent);
                Ok(())
            }
            Control::Speed { times } => {
                if !SPEEDS.contains(&times) {
                    let known = SPEEDS.map(|speed| speed.to_string()).join(", ");
                    return Err(format!("time runs at {known} times its speed, not at {times}"));
                }
                self.speed.send_replace(times);
                self.show(|state| state.speed = times);
                Ok(())
            }
        }
    }
}

fn within(what: &str, number: u32, least: u32, most: u32) -> Result<u16, String> {
    let number = Some(number).filter(|number| (least..=most).contains(number));
    let small = number.and_then(|number| u16::try_from(number).ok());
    small.ok_or_else(|| format!("{what} has to be from {least} to {most}"))
}

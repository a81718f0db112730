//! What one host could hold: a mix of classes that uses all of its resources.

use crate::bound::{Worth, float};
use crate::class::Class;
use crate::host::{fits, times_fitting};
use crate::market::Amounts;

/// Pods by class on one host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pattern {
    pub(crate) pods: Vec<(usize, u32)>,
}

/// A class that may be part of the mix, with how many of its pods there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ingredient {
    pub(crate) class: usize,
    pub(crate) pods: u32,
}

impl Pattern {
    /// Fills `room`, starting with one pod of the first ingredient.
    ///
    /// Each next class is the one whose requests, weighed by worth, point most nearly where the free room
    /// points, whatever their size: so CPU-heavy and memory-heavy pods end up together and all resources run
    /// out at once.
    pub(crate) fn fill(room: &[i64], ingredients: &[Ingredient], classes: &[Class], worth: &Worth) -> Self {
        let mut free = Amounts::from_slice(room);
        let mut pattern = Self::default();
        let mut open: Vec<(Ingredient, f64)> = ingredients
            .iter()
            .map(|ingredient| (*ingredient, worth.length(&classes[ingredient.class].requests, room)))
            .collect();
        if let Some((first, _)) = open.first_mut() {
            pattern.put(&classes[first.class], first, 1, &mut free);
        }
        loop {
            open.retain(|(ingredient, _)| {
                ingredient.pods > 0 && fits(&classes[ingredient.class].requests, &free)
            });
            let scarcity = worth.weighted_by_share(&free, room);
            let best = open
                .iter()
                .enumerate()
                .map(|(index, (ingredient, length))| {
                    let requests = &classes[ingredient.class].requests;
                    let along =
                        requests.iter().zip(&scarcity).map(|(request, weight)| float(*request) * weight);
                    (along.sum::<f64>() / length, index)
                })
                .reduce(|best, next| if next.0 > best.0 { next } else { best });
            let Some((_, index)) = best else { return pattern };
            let (ingredient, _) = &mut open[index];
            let class = &classes[ingredient.class];
            // Half of what fits: the rest of the room changes what fits best beside it.
            let pods = (times_fitting(&class.requests, &free) / 2).max(1).min(ingredient.pods);
            pattern.put(class, ingredient, pods, &mut free);
        }
    }

    /// What the pods of the pattern ask for together.
    pub(crate) fn requests(&self, classes: &[Class]) -> Amounts {
        let mut sum = Amounts::new();
        for (class, pods) in &self.pods {
            let requests = &classes[*class].requests;
            sum.resize(requests.len(), 0);
            crate::pack::add_times(&mut sum, requests, i64::from(*pods));
        }
        sum
    }

    fn put(&mut self, class: &Class, ingredient: &mut Ingredient, pods: u32, free: &mut Amounts) {
        ingredient.pods -= pods;
        crate::pack::add_times(free, &class.requests, -i64::from(pods));
        match self.pods.iter_mut().find(|(class, _)| *class == ingredient.class) {
            Some((_, count)) => *count += pods,
            None => self.pods.push((ingredient.class, pods)),
        }
    }
}

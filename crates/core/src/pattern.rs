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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ingredient {
    pub(crate) class: usize,
    pub(crate) pods: u32,
}

/// Ingredients that are still to be had, with what each asks for of every resource side by side, so that all
/// of them are weighed in one go.
struct Shelf {
    ingredients: Vec<Ingredient>,
    /// By resource, then by ingredient. In floating point, which orders sizes beyond 2^53 only roughly: what
    /// is taken off the shelf is compared exactly.
    requests: Vec<Vec<f64>>,
    /// How long each one's requests are as a vector.
    lengths: Vec<f64>,
    /// Room for the weights.
    alignment: Vec<f64>,
}

impl Shelf {
    /// What of the ingredients fits into the room.
    fn stocked(ingredients: &[Ingredient], classes: &[Class], room: &[i64], worth: &Worth) -> Self {
        let mut lengths = Vec::with_capacity(ingredients.len());
        let mut fitting = Vec::with_capacity(ingredients.len());
        let mut requests = vec![Vec::with_capacity(ingredients.len()); room.len()];
        for ingredient in ingredients {
            let amounts = &classes[ingredient.class].requests;
            if fits(amounts, room) {
                fitting.push(*ingredient);
                lengths.push(worth.length(amounts, room));
                requests.iter_mut().zip(amounts).for_each(|(column, amount)| column.push(float(*amount)));
            }
        }
        Self { alignment: vec![0.0; fitting.len()], ingredients: fitting, requests, lengths }
    }

    /// Takes an ingredient off the shelf for good.
    fn remove(&mut self, index: usize) {
        if let Some(column) = self.requests.first_mut() {
            column[index] = f64::INFINITY;
        }
    }

    /// Of the ingredients that fit what is free, the first whose requests point most nearly where `scarcity`
    /// does.
    fn best(&mut self, free: &[i64], scarcity: &[f64]) -> Option<usize> {
        self.alignment.fill(0.0);
        for (column, (free, weight)) in self.requests.iter().zip(free.iter().zip(scarcity)) {
            let free = float((*free).max(0));
            for (alignment, request) in self.alignment.iter_mut().zip(column) {
                *alignment = if *request <= free { *alignment + request * weight } else { f64::NEG_INFINITY };
            }
        }
        let mut best = None;
        let mut most = f64::NEG_INFINITY;
        for (index, (alignment, length)) in self.alignment.iter().zip(&self.lengths).enumerate() {
            let alignment = alignment / length;
            if alignment > most {
                most = alignment;
                best = Some(index);
            }
        }
        best
    }

    /// Which ingredient comes next, and how many of its pods.
    fn next(&mut self, free: &[i64], classes: &[Class], scarcity: &[f64]) -> Option<(usize, u32)> {
        loop {
            let index = self.best(free, scarcity)?;
            let ingredient = self.ingredients[index];
            let fitting = times_fitting(&classes[ingredient.class].requests, free);
            if fitting > 0 {
                // Half of what fits: the rest of the room changes what fits best beside it.
                return Some((index, (fitting / 2).max(1).min(ingredient.pods)));
            }
            self.remove(index);
        }
    }
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
        let mut shelf = Shelf::stocked(ingredients, classes, room, worth);
        let mut chosen = (!shelf.ingredients.is_empty()).then_some((0, 1));
        while let Some((index, pods)) = chosen {
            let ingredient = &mut shelf.ingredients[index];
            pattern.put(&classes[ingredient.class], ingredient, pods, &mut free);
            if ingredient.pods == 0 {
                shelf.remove(index);
            }
            chosen = shelf.next(&free, classes, &worth.weighted_by_share(&free, room));
        }
        pattern
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

//! How well a pool's machines become nodes, by the last few that should have.

use std::collections::VecDeque;

/// So many count.
const COUNTED: usize = 4;
/// A pool is ill once so many of them failed: one may be bad luck.
const FAILED_MAX: usize = 2;

/// Whether the last machines of a pool joined, the newest last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registrations {
    last: VecDeque<bool>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// Nothing speaks for either.
    #[default]
    Unknown,
    Healthy,
    Unhealthy,
}

impl Registrations {
    /// As little as can have led to this.
    pub fn of(health: Health) -> Self {
        let last = match health {
            Health::Unknown => VecDeque::new(),
            Health::Healthy => VecDeque::from([true]),
            Health::Unhealthy => VecDeque::from([false; FAILED_MAX]),
        };
        Self { last }
    }

    pub fn note(&mut self, has_joined: bool) {
        self.last.push_back(has_joined);
        if self.last.len() > COUNTED {
            self.last.pop_front();
        }
    }

    pub fn health(&self) -> Health {
        let failed = self.last.iter().filter(|has_joined| !**has_joined).count();
        match () {
            () if failed >= FAILED_MAX => Health::Unhealthy,
            () if failed < self.last.len() => Health::Healthy,
            () => Health::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_is_that_of_the_last_few() {
        let cases = [
            ("", Health::Unknown),
            ("+", Health::Healthy),
            ("-", Health::Unknown),
            ("--", Health::Unhealthy),
            ("+-", Health::Healthy),
            ("+-+-", Health::Unhealthy),
            ("--++", Health::Unhealthy),
            ("--+++", Health::Healthy),
            ("++++--", Health::Unhealthy),
        ];
        for (past, expected) in cases {
            let mut registrations = Registrations::default();
            past.chars().for_each(|sign| registrations.note(sign == '+'));
            assert_eq!(registrations.health(), expected, "{past}");
            assert_eq!(Registrations::of(expected).health(), expected);
        }
    }
}

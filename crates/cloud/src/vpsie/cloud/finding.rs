//! Machines by whatever name somebody has for them.

use std::collections::BTreeSet;

use super::VpsieCloud;
use crate::machine::{Machine, MachineId};
use crate::provider::Refusal;
use crate::vpsie::limiter::Lane;

/// What somebody has of a machine. VPSie and Kubernetes do not agree on capital letters in names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named<'n> {
    Id(&'n MachineId),
    Name(&'n str),
    Hostname(&'n str),
}

impl VpsieCloud {
    /// The machine of this name, if it is certain that it is Berth's: it carries a launch's token, or its id is among
    /// those that were written down. A stranger's machine may have any name.
    pub async fn find(
        &self,
        named: Named<'_>,
        recorded: &BTreeSet<MachineId>,
    ) -> Result<Option<Machine>, Refusal> {
        let seen = self.look(Lane::Acting).await?;
        let matching = seen.servers.iter().filter(|server| match named {
            Named::Id(id) => server.id == *id,
            Named::Name(name) => server.name.eq_ignore_ascii_case(name),
            Named::Hostname(name) => server.hostname.eq_ignore_ascii_case(name),
        });
        let matching: Vec<_> = matching.cloned().collect();
        let mut machines = self.described(&matching).await?;
        machines.retain(|machine| machine.token.is_some() || recorded.contains(&machine.id));
        if machines.len() > 1 {
            let ids: Vec<String> = machines.iter().map(|machine| machine.id.to_string()).collect();
            return Err(Refusal::Invalid(format!(
                "{named:?} is the name of several machines: {}",
                ids.join(", ")
            )));
        }
        Ok(machines.pop())
    }
}

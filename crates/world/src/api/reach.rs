//! What is meant for the containers of a pod: logs, commands, attached terminals, forwarded ports.
//!
//! Whoever asks is told all that Kubernetes would tell them before it turns to the node. Containers of a world run
//! nothing, so that is where it ends.

use super::{Call, State};
use crate::failure::{Failure, Reason};
use crate::json::Value;
use crate::kinds::Subresource;
use crate::object;
use crate::request::{Place, pairs};
use crate::store::Key;

impl State {
    pub(super) fn reach(
        &self,
        part: Subresource,
        place: &Place,
        call: &Call,
    ) -> Result<(u16, Value), Failure> {
        let (key, pod) = self.existing(place)?;
        let container = match part {
            Subresource::PortForward => "",
            _ => &container(&pod, &asked(call))?,
        };
        let node = object::text(&pod, &["spec", "nodeName"]);
        if node.is_empty() {
            return match part {
                // A pod that has not begun has not said anything.
                Subresource::Log => Ok((204, Value::Null)),
                _ => Err(Failure::bad_request(format!("pod {} does not have a host assigned", key.name()))),
            };
        }
        if self.store.get(&Key::new("nodes", "", node)).is_none() {
            // The API server looks up the node, and reports it as what it was asked for.
            return Err(Failure::not_found(&place.resource, node));
        }
        let why = "the containers of this world run nothing";
        Err(match part {
            Subresource::Log => {
                let at = format!("containerLogs/{}/{}/{container}", key.namespace(), key.name());
                Failure::new(Reason::Unknown, format!("Get \"https://{node}:10250/{at}\": {why}"))
            }
            _ => Failure::new(Reason::InternalError, format!("error dialing backend: {why}")),
        })
    }
}

/// The container that a request names, if it names one.
fn asked(call: &Call) -> String {
    pairs(&call.query).find(|(key, _)| key == "container").map(|(_, name)| name).unwrap_or_default()
}

/// The container that is meant: the one that is named, or the only one.
fn container(pod: &Value, asked: &str) -> Result<String, Failure> {
    let names = |list: &str| -> Vec<&str> {
        let containers = pod["spec"][list].as_array().into_iter().flatten();
        containers.filter_map(|container| container["name"].as_str()).collect()
    };
    let (containers, initial, added) =
        (names("containers"), names("initContainers"), names("ephemeralContainers"));
    let pod = object::name(pod);
    if !asked.is_empty() {
        let is_known = [&containers, &initial, &added].iter().any(|names| names.contains(&asked));
        return if is_known {
            Ok(asked.to_owned())
        } else {
            Err(Failure::bad_request(format!("container {asked} is not valid for pod {pod}")))
        };
    }
    if let [only] = containers[..] {
        return Ok(only.to_owned());
    }
    let or = |what: &str, names: &[&str]| match names {
        [] => String::new(),
        names => format!(" or one of the {what}: [{}]", names.join(" ")),
    };
    Err(Failure::bad_request(format!(
        "a container name must be specified for pod {pod}, choose one of: [{}]{}{}",
        containers.join(" "),
        or("init containers", &initial),
        or("ephemeral containers", &added),
    )))
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn the_container_that_is_meant() {
        let one = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "i"}]}});
        let two = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}, {"name": "d"}], "initContainers": [{"name": "i"}]}});
        for (pod, asked, expected) in [
            (&one, "", "c"),
            (&one, "i", "i"),
            (&two, "d", "d"),
            (&two, "z", "container z is not valid for pod p"),
            (
                &two,
                "",
                "a container name must be specified for pod p, choose one of: [c d] or one of the init containers: [i]",
            ),
        ] {
            let said = container(pod, asked).unwrap_or_else(|failure| failure.message);
            assert_eq!(said, expected);
        }
    }
}

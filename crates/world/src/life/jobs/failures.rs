//! What a job makes of a pod that failed, by the rules that it has for that.

use crate::json::Value;
use crate::object;

/// What comes of a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Counts,
    /// It is as if the pod had never been.
    IsIgnored,
    /// The job is over, for this reason.
    EndsJob(String),
}

/// The first rule that fits decides. What none fits counts.
pub(super) fn judge(job: &Value, pod: &Value) -> Outcome {
    let rules = object::at(job, "/spec/podFailurePolicy/rules").and_then(Value::as_array);
    for (index, rule) in rules.into_iter().flatten().enumerate() {
        let Some(what) = fitting(rule, pod) else { continue };
        let action = object::text(rule, &["action"]);
        return match action {
            "Ignore" => Outcome::IsIgnored,
            "FailJob" => Outcome::EndsJob(format!("{what} matching {action} rule at index {index}")),
            _ => Outcome::Counts,
        };
    }
    Outcome::Counts
}

/// What of a pod a rule fits, in words.
fn fitting(rule: &Value, pod: &Value) -> Option<String> {
    let name = format!("{}/{}", object::namespace(pod), object::name(pod));
    if rule["onExitCodes"].is_null() {
        let condition = condition(&rule["onPodConditions"], pod)?;
        return Some(format!("Pod {name} has condition {condition}"));
    }
    let (container, code) = container(&rule["onExitCodes"], pod)?;
    Some(format!("Container {container} for pod {name} failed with exit code {code}"))
}

fn condition<'a>(patterns: &'a Value, pod: &Value) -> Option<&'a str> {
    let mut patterns = patterns.as_array().into_iter().flatten();
    let pattern = patterns.find(|pattern| {
        let conditions = object::at(pod, "/status/conditions").and_then(Value::as_array);
        conditions
            .into_iter()
            .flatten()
            .any(|condition| condition["type"] == pattern["type"] && condition["status"] == pattern["status"])
    })?;
    Some(object::text(pattern, &["type"]))
}

fn container<'a>(codes: &Value, pod: &'a Value) -> Option<(&'a str, i64)> {
    let lists = ["containerStatuses", "initContainerStatuses"];
    let statuses = lists.into_iter().filter_map(|list| pod["status"][list].as_array()).flatten();
    let listed = |code: i64| codes["values"].as_array().into_iter().flatten().any(|value| *value == code);
    statuses
        .filter(|status| codes["containerName"].is_null() || codes["containerName"] == status["name"])
        .filter_map(|status| {
            let code = object::at(status, "/state/terminated/exitCode")?.as_i64()?;
            Some((object::text(status, &["name"]), code))
        })
        .find(|(_, code)| *code != 0 && listed(*code) == (codes["operator"] == "In"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn the_first_rule_that_fits_decides() {
        let ignores =
            json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]});
        let codes = |action: &str, operator: &str, container: Value| {
            let mut codes = json!({"operator": operator, "values": [3, 4]});
            if !container.is_null() {
                codes["containerName"] = container;
            }
            json!({"action": action, "onExitCodes": codes})
        };
        let ends = |code: i64, index: usize| {
            let told = format!("Container c for pod n/p failed with exit code {code}");
            Outcome::EndsJob(format!("{told} matching FailJob rule at index {index}"))
        };
        let anybody = || json!(null);
        for (rules, code, is_disrupted, expected) in [
            (vec![], 3, true, Outcome::Counts),
            (vec![ignores.clone()], 3, true, Outcome::IsIgnored),
            (vec![ignores.clone()], 3, false, Outcome::Counts),
            (vec![codes("FailJob", "In", anybody())], 3, false, ends(3, 0)),
            (vec![codes("FailJob", "In", anybody())], 5, false, Outcome::Counts),
            (vec![codes("FailJob", "NotIn", anybody())], 5, false, ends(5, 0)),
            (vec![codes("FailJob", "NotIn", anybody())], 0, false, Outcome::Counts),
            (vec![codes("FailJob", "In", json!("d"))], 3, false, Outcome::Counts),
            (vec![codes("FailJob", "In", json!("c"))], 3, false, ends(3, 0)),
            (vec![codes("Count", "In", anybody()), ignores.clone()], 3, true, Outcome::Counts),
            (vec![ignores, codes("FailJob", "In", anybody())], 4, false, ends(4, 1)),
        ] {
            let job = json!({"spec": {"podFailurePolicy": {"rules": rules}}});
            let disrupted = if is_disrupted { "True" } else { "False" };
            let pod = json!({
                "metadata": {"name": "p", "namespace": "n"},
                "status": {
                    "conditions": [{"type": "DisruptionTarget", "status": disrupted}],
                    "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": code}}}],
                },
            });
            assert_eq!(judge(&job, &pod), expected, "{job} {code}");
        }
    }
}

//! Label selectors over pods and namespaces.

use crate::names::Labels;
use crate::requirement::{Expression, Operator};

/// `matchLabels` and `matchExpressions` together. Empty matches everything.
///
/// "No selector at all" means "nothing" to Kubernetes and is `Option::None` where it can happen.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selector {
    expressions: Vec<Expression>,
}

impl Selector {
    /// Order does not matter to a selector, so it is normalised away: equal meaning, equal value.
    pub fn new(mut expressions: Vec<Expression>) -> Self {
        expressions.sort();
        expressions.dedup();
        Self { expressions }
    }

    pub fn matches(&self, labels: &Labels) -> bool {
        self.expressions.iter().all(|e| e.matches(labels.get(e.key()).map(|v| &**v)))
    }

    pub fn expressions(&self) -> &[Expression] {
        &self.expressions
    }

    pub fn is_everything(&self) -> bool {
        self.expressions.is_empty()
    }

    /// This selector and the pod's own values of `keys` (`matchLabelKeys`), or all other values than
    /// the pod's (`mismatchLabelKeys`). A key that the pod lacks is ignored, as Kubernetes does.
    #[must_use]
    pub fn with_label_keys<'a>(
        &self,
        keys: impl IntoIterator<Item = &'a str>,
        labels: &Labels,
        operator: Operator,
    ) -> Self {
        let own = keys.into_iter().filter_map(|key| {
            let value = labels.get(key)?;
            Expression::new(key, operator, vec![value.clone()]).ok()
        });
        Self::new(self.expressions.iter().cloned().chain(own).collect())
    }
}

impl std::fmt::Display for Selector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_everything() {
            return f.write_str("every pod");
        }
        for (i, expression) in self.expressions.iter().enumerate() {
            let separator = if i == 0 { "" } else { " and " };
            write!(f, "{separator}{expression}")?;
        }
        Ok(())
    }
}

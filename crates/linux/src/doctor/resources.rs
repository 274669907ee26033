//! How this machine limits hosts' resources: only experiments that ask for limits need it.

use super::Finding;
use crate::resources::{Means, Support, Unsupported};

/// One for each resource.
pub(super) fn findings(support: &Support) -> [Finding; 3] {
    let finding = |name, field, means: &Result<Means, Unsupported>| match means {
        Ok(means) => Finding::ok(name, format!("limited by {means}")),
        Err(Unsupported { reason, remedy }) => Finding::warning(
            name,
            format!("{reason}, so experiments whose hosts have `{field}` do not run"),
            remedy.clone(),
        ),
    };
    [
        finding("hosts' CPU time", "cpu", &support.cpu),
        finding("hosts' memory", "memory", &support.memory),
        finding("hosts' disks", "disk", &support.disk),
    ]
}

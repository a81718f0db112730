//! The paths of servers, and what is offered for them.

use http::Method;
use serde_json::{Value, json};

use super::api::{Ordered, Server, read_all, segment};
use super::client::{Body, Call, Client, Departure};
use super::envelope::{Pagination, malformed};
use super::error::{ApiError, Fault};
use super::limiter::Lane;
use super::settings::{CloudSettings, ServerPaths};
use crate::field::Field;
use crate::machine::{MachineId, Notice, NoticeKind, Order};

const OFFERINGS: &str = "/offerings";
/// The most that VPSie gives at once.
const PER_PAGE: u32 = 100;

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part<T> {
    pub(super) items: Vec<T>,
    /// Of the whole list, if it says.
    pub(super) total: Option<u32>,
    /// The number of the next page.
    pub(super) next: Option<u32>,
}

impl Client {
    pub(super) async fn servers(
        &self,
        paths: ServerPaths,
        page: u32,
        lane: Lane,
    ) -> Result<Part<Server>, ApiError> {
        self.page(paths.servers, page, lane, Server::read_or_named).await
    }

    pub(super) async fn offerings(&self, page: u32) -> Result<Part<Value>, ApiError> {
        self.page(OFFERINGS, page, Lane::Polling, |item| item.value().map_err(malformed)).await
    }

    async fn page<T>(
        &self,
        path: &str,
        page: u32,
        lane: Lane,
        read: impl Fn(&Field<'_, '_>) -> Result<T, Fault>,
    ) -> Result<Part<T>, ApiError> {
        let query = Some(format!("page={page}&per_page={PER_PAGE}"));
        let call = Call { query, repeatable: true, ..Call::new(Method::GET, path, lane) };
        self.ask_for(&call, |envelope| {
            let items = read_all(&envelope.document().get("data"), &read)?;
            let pagination = envelope.pagination()?;
            Ok(Part { items, total: pagination.map(|part| part.total), next: next(pagination, page)? })
        })
        .await
    }

    pub(super) async fn server(&self, paths: ServerPaths, id: &MachineId) -> Result<Server, ApiError> {
        let path = format!("{}/{}", paths.servers, segment(id.as_str()));
        let call = Call { repeatable: true, ..Call::new(Method::GET, path, Lane::Acting) };
        self.ask_for(&call, |envelope| envelope.read_one(Server::read)).await
    }

    /// The number of the group of this name that servers of a cluster are entered in, which is made if there is none.
    pub(super) async fn server_group(&self, path: &str, cluster: &str, name: &str) -> Result<u64, ApiError> {
        let query = Some(format!("clusterIdentifier={}", segment(cluster)));
        let call = Call { query, ..Call::new(Method::GET, path, Lane::Acting) };
        let groups = self.ask_for(&call, |envelope| {
            read_all(&envelope.document().get("data"), |item| {
                let known = item.get("name").scalar("the name of the group").map_err(malformed)?;
                Ok((known, number_of_group(item)?))
            })
        });
        if let Some((_, number)) = groups.await?.into_iter().find(|(known, _)| known == name) {
            return Ok(number);
        }
        let body = Body::Json(json!({ "clusterIdentifier": cluster, "name": name }));
        let call = Call { body, ..Call::new(Method::POST, path, Lane::Acting) };
        self.ask_for(&call, |envelope| number_of_group(&envelope.document().get("data"))).await
    }

    /// Buys a server. `None`: it is made later, and has no name yet.
    pub(super) async fn create_server(
        &self,
        paths: ServerPaths,
        order: &Order,
        wanted: &Wanted<'_>,
        settings: &CloudSettings,
        departure: &Departure,
    ) -> Result<Option<Server>, ApiError> {
        let call = Call {
            body: Body::Json(creation(order, wanted, settings)),
            departure: Some(departure.clone()),
            ..Call::new(Method::POST, paths.servers, Lane::Acting)
        };
        self.ask_for(&call, |envelope| {
            let server = || envelope.read_one(Server::read);
            (!envelope.is_asynchronous()).then(server).transpose()
        })
        .await
    }

    pub(super) async fn delete_server(&self, paths: ServerPaths, id: &MachineId) -> Result<(), ApiError> {
        let path = format!("{}/{}", paths.servers, segment(id.as_str()));
        let call = Call { repeatable: true, ..Call::new(Method::DELETE, path, Lane::Acting) };
        self.ask_for(&call, |_| Ok(())).await
    }

    /// What stands about servers. `None`: most installations have no such path.
    pub(super) async fn notices(&self, path: &str) -> Result<Option<Vec<Notice>>, ApiError> {
        let call = Call { repeatable: true, ..Call::new(Method::GET, path, Lane::Polling) };
        let told = self.ask_for(&call, |envelope| read_all(&envelope.document().get("data"), notice)).await;
        match told {
            // A page that says so is no less of an answer.
            Err(ApiError { fault: Fault::NotFound { .. } | Fault::NotJson { .. }, .. }) => Ok(None),
            told => told.map(Some),
        }
    }
}

/// Which server is bought, besides what the order says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'o> {
    pub(super) size: &'o str,
    pub(super) datacenter: &'o str,
    /// The number of the group that it is entered in.
    pub(super) group: Option<u64>,
}

fn number_of_group(group: &Field<'_, '_>) -> Result<u64, Fault> {
    group.get("id").count("the number of the group").map(u64::from).map_err(malformed)
}

/// Pages are followed one by one: whoever answers with another page than the one that was asked for is not listened to.
fn next(pagination: Option<Pagination>, asked: u32) -> Result<Option<u32>, Fault> {
    let Some(Pagination { page, pages, .. }) = pagination else { return Ok(None) };
    if page != asked {
        return Err(Fault::Malformed {
            problem: format!("pagination.current_page: is {page} where {asked} was asked for"),
        });
    }
    Ok((page < pages).then_some(page + 1))
}

fn creation(order: &Order, wanted: &Wanted<'_>, settings: &CloudSettings) -> Value {
    let own = order.machine_tags().into_iter().map(|(key, value)| format!("{key}={value}"));
    let setup = &*order.setup;
    let marks = setup.marks.iter().map(ToString::to_string);
    let tags: Vec<String> = marks.chain(own).chain(Ordered::tags(wanted.size, wanted.datacenter)).collect();
    json!({
        "name": order.name,
        "hostname": order.name,
        "offering_id": wanted.size,
        "datacenter_id": wanted.datacenter,
        "group_id": wanted.group,
        "resourceIdentifier": settings.cluster,
        "projectId": setup.project.as_ref().or(settings.project.as_ref()),
        "os_image_id": setup.image,
        "ssh_key_ids": setup.ssh_keys,
        "kubernetes_version": setup.kubernetes_version.as_ref().or(settings.kubernetes_version.as_ref()),
        "notes": setup.notes,
        "tags": tags,
        "labels": *order.labels,
        "taints": order.taints.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

fn notice(field: &Field<'_, '_>) -> Result<Notice, Fault> {
    let text = |key: &'static str, wanted| field.get(key).scalar(wanted).map_err(malformed);
    let time = |key: &'static str| {
        let text = text(key, "a time as in RFC 3339")?;
        let problem = || format!("{key}: `{text}` is not a time as in RFC 3339");
        text.parse().map_err(|_| Fault::Malformed { problem: problem() })
    };
    let kind = text("kind", "reclaim, rebalance or maintenance")?;
    let kind = match kind.as_str() {
        "reclaim" => NoticeKind::Reclaim,
        "rebalance" => NoticeKind::Rebalance,
        "maintenance" => NoticeKind::Maintenance,
        _ => return Err(Fault::Malformed { problem: format!("kind: `{kind}` is not known") }),
    };
    Ok(Notice {
        machine: text("server", "the id of the server")?.as_str().into(),
        kind,
        given_at: time("given_at")?,
        deadline: field.get("deadline").is_present().then(|| time("deadline")).transpose()?,
    })
}

//! A plan as one page: no script, nothing fetched, everything from manifests escaped.

use askama::Template;

use super::fill::Fill;
use super::money::{hourly, monthly, signed};
use super::style::printable;
use super::tiles::{PoolPicture, Standing, Tile};
use super::view::{View, counted};

/// The whole document.
pub(crate) fn page(view: &View, picture: &[PoolPicture]) -> Result<String, askama::Error> {
    let body = body(view, picture)?;
    Page { title: &view.verdict, style: include_str!("../../templates/plan.css"), body: &body }.render()
}

fn body(view: &View, picture: &[PoolPicture]) -> Result<String, askama::Error> {
    Body { view, picture }.render()
}

#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    title: &'a str,
    style: &'a str,
    body: &'a str,
}

#[derive(Template)]
#[template(path = "plan.html")]
struct Body<'a> {
    view: &'a View,
    picture: &'a [PoolPicture],
}

impl Body<'_> {
    fn has_standing(&self, standing: Standing) -> bool {
        self.picture
            .iter()
            .flat_map(|pool| &pool.zones)
            .flat_map(|zone| &zone.tiles)
            .any(|tile| tile.standing == standing)
    }

    /// `8 nodes`, `8 nodes, 3 of them to take away`.
    fn node_count(&self) -> String {
        let tiles = || self.picture.iter().flat_map(|pool| &pool.zones).flat_map(|zone| &zone.tiles);
        let count = |tiles: &mut dyn Iterator<Item = &Tile>| tiles.map(|tile| tile.count).sum::<usize>();
        let nodes = counted(count(&mut tiles()), "node");
        match count(&mut tiles().filter(|tile| tile.standing == Standing::Removed)) {
            0 => nodes,
            removed => format!("{nodes}, {removed} of them to take away"),
        }
    }
}

impl Tile {
    /// A single existing node goes by its name, everything else by its type.
    fn title(&self) -> String {
        let by_name = self.count == 1 && self.standing != Standing::New;
        match &self.instance_type {
            Some(instance_type) if !by_name => printable(instance_type),
            _ if by_name => printable(&self.names),
            _ => "unknown type".to_owned(),
        }
    }

    /// What its badge and its title leave unsaid.
    fn particulars(&self) -> String {
        let by_name = self.count == 1 && self.standing != Standing::New;
        let instance_type = self.instance_type.as_deref().filter(|_| by_name).map(printable);
        let capacity_type = self.capacity_type.as_deref().map(printable);
        let price = self.price.map(|price| {
            let estimated = if self.estimated { " estimated" } else { "" };
            let each = if self.count > 1 { " each" } else { "" };
            format!("{}/h{each}{estimated}", hourly(price))
        });
        let price = price.unwrap_or_else(|| "price unknown".to_owned());
        [instance_type, capacity_type, Some(price)].into_iter().flatten().collect::<Vec<_>>().join(" · ")
    }
}

impl Fill {
    fn percent_text(&self) -> String {
        self.percent().map_or_else(|| "-".to_owned(), |percent| format!("{percent}%"))
    }

    /// How wide the two parts of its bar are, in percent: an overfull node's bar is full.
    fn widths(&self) -> (u32, u32) {
        let held = self.held_percent().unwrap_or(0).min(100);
        (held, self.percent().unwrap_or(0).min(100) - held)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{assert_golden, launch, pod, scenes};
    use super::super::tiles::picture;
    use super::*;
    use berth_core::plan::{Bind, Host, Plan};
    use berth_core::snapshot::Snapshot;

    #[test]
    fn pages() {
        for scene in scenes() {
            let view = scene.view();
            let text = body(&view, &picture(&scene.plan, &scene.snapshot)).unwrap();
            assert!(text.lines().count() < 150, "{} is too long to read", scene.name);
            assert_golden(&format!("{}.html", scene.name), &text);
        }
    }

    #[test]
    fn nothing_is_fetched_and_nothing_runs() {
        for scene in scenes() {
            let view = scene.view();
            let page = page(&view, &picture(&scene.plan, &scene.snapshot)).unwrap();
            for forbidden in ["<script", "http:", "https:", "src=\"", "@import", "url(", "<img", "<link"] {
                assert!(!page.contains(forbidden), "{} contains {forbidden}", scene.name);
            }
        }
    }

    #[test]
    fn a_page_of_thousands_of_nodes_stays_small() {
        let count = 4000_usize;
        let plan = Plan {
            launches: (0..count).map(|i| launch(&format!("default-{i}"), "zone-a", 117_180)).collect(),
            binds: (0..count).map(|pod| Bind { pod, host: Host::Launch(pod) }).collect(),
            ..Plan::default()
        };
        for (distinct_requests, limit) in [(1, 20_000), (2500, 600_000)] {
            let pods = (0..count)
                .map(|i| pod("a", &format!("p-{i}"), i64::try_from(i % distinct_requests).unwrap(), 1 << 20))
                .collect();
            let snapshot = Snapshot { pods, ..Snapshot::default() };
            let page = page(&View::of(&plan, &snapshot, &[], None), &picture(&plan, &snapshot)).unwrap();
            assert!(page.len() < limit, "{distinct_requests} kinds make {} bytes", page.len());
        }
    }
}

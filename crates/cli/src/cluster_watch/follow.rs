//! Follows one site: passes on what it reports, and reconnects when the connection has ended.

use std::sync::Arc;
use std::time::{Duration, Instant};

use meshlock_cluster::names::{ClientLabel, SiteName};
use meshlock_lab::live::{ClusterNews, SiteNews};
use meshlock_sim::trace::{TraceKind, Whose, Written};
use meshlock_wire::clients::{RefusalKind, Status, Tag, ToClient, ToNode};

use super::lines::written;
use super::{ClusterWatch, unreached};
use crate::commands::standing;
use crate::location::NodeLocation;
use meshlock_client::{Connection, ConnectionError};

/// How often a site is asked for its status, and how often a lost site is tried again.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// The site that a thread follows.
struct Followed {
    site: SiteName,
    news: SiteNews,
    watch: Tag,
    asked: Tag,
    /// Time of the last line, in microseconds since 1970.
    last: f64,
    /// Whether lines were lost, so that what is known of the site's clients may be wrong.
    gap: bool,
    /// Whether the site has already reported what its clients hold and wait for. If there are very many, it reports only a part.
    begun: bool,
}

impl ClusterWatch {
    pub(super) fn connect(&self, location: &NodeLocation) -> anyhow::Result<Connection> {
        let label = format!("meshlock {}, process {}", self.wanted.command, std::process::id());
        location.connect(&label.parse::<ClientLabel>()?)
    }

    /// Starts a thread that follows the node, unless its site is already followed.
    pub(super) fn follow(self: &Arc<Self>, location: NodeLocation, remote: Option<Connection>) {
        let site = remote.as_ref().map(|remote| remote.site().clone());
        if let Some(site) = &site
            && !self.known().followed.insert(site.clone())
        {
            return;
        }
        let watching = self.clone();
        std::thread::spawn(move || watching.keep_following(&location, site, remote));
    }

    /// Follows the node until the process ends, or until another thread follows the same site, or it belongs to another cluster.
    pub(super) fn keep_following(
        self: &Arc<Self>,
        location: &NodeLocation,
        mut site: Option<SiteName>,
        mut remote: Option<Connection>,
    ) {
        let mut again = false;
        loop {
            let connected = remote.take().map_or_else(|| self.connect(location), Ok);
            let ended = connected.and_then(|mut remote| {
                let name = remote.site().clone();
                if site.as_ref() != Some(&name) {
                    if !self.known().followed.insert(name.clone()) {
                        return Ok(FollowEnd::Another);
                    }
                    site = Some(name.clone());
                    self.live.forget(&location.to_string());
                }
                self.pass_on_all(&mut remote, name, std::mem::replace(&mut again, true))
            });
            let name = site.as_ref().map_or_else(|| location.to_string(), ToString::to_string);
            match ended {
                Ok(FollowEnd::Another) => return,
                Ok(FollowEnd::Refused(why)) => {
                    let error = anyhow::Error::from(ConnectionError::Refused {
                        kind: RefusalKind::Other,
                        endpoint: location.endpoints()[0].clone(),
                        why,
                    });
                    self.live.news(&name, unreached(location, &error));
                }
                Err(error) => self.live.news(&name, unreached(location, &error)),
            }
            // Nothing wakes this thread early: it tries again after a while.
            std::thread::park_timeout(ASK_EVERY);
        }
    }

    /// Passes on what the site reports, until the connection ends.
    fn pass_on_all(
        self: &Arc<Self>,
        remote: &mut Connection,
        site: SiteName,
        again: bool,
    ) -> anyhow::Result<FollowEnd> {
        let news = SiteNews { watched: true, place: remote.endpoint().to_string(), ..SiteNews::default() };
        let mut followed = Followed { site, news, watch: 0, asked: 0, last: 0.0, gap: again, begun: false };
        self.watch(remote, &mut followed)?;
        let mut next = Instant::now();
        loop {
            if Instant::now() >= next {
                if followed.gap {
                    let watch = followed.watch;
                    remote.send(&ToNode::Cancel(watch))?;
                    self.watch(remote, &mut followed)?;
                }
                followed.asked = remote.tag();
                remote.send(&ToNode::Status { tag: followed.asked })?;
                next = Instant::now() + ASK_EVERY;
            }
            match remote.receive(Some(next.saturating_duration_since(Instant::now())))? {
                Some(ToClient::Traced { tag, origin, lines, lost }) if tag == followed.watch => {
                    let name = followed.site.as_str();
                    let lines: Vec<Written> =
                        lines.into_iter().map(|line| written(name, origin, line)).collect();
                    self.pass_on(&mut followed, lines, lost);
                }
                Some(ToClient::Status { tag, status }) if tag == followed.asked => {
                    if !self.take_status(&mut followed, &status) {
                        return Ok(FollowEnd::Another);
                    }
                }
                Some(ToClient::Refused { tag, why, .. })
                    if tag == followed.watch || tag == followed.asked =>
                {
                    return Ok(FollowEnd::Refused(why));
                }
                Some(_) | None => {}
            }
        }
    }

    fn watch(&self, remote: &mut Connection, followed: &mut Followed) -> Result<(), ConnectionError> {
        if std::mem::take(&mut followed.gap) {
            // The new watch begins with what the site's clients hold and wait for.
            self.live.tell([gap(followed, None)]);
        }
        (followed.watch, followed.begun) = (remote.tag(), false);
        let (pattern, states) = (self.wanted.pattern.clone(), self.wanted.states);
        remote.send(&ToNode::Watch { tag: followed.watch, pattern, states })
    }

    fn pass_on(&self, followed: &mut Followed, mut lines: Vec<Written>, lost: u64) {
        if lost > 0 {
            if let Some(first) = lines.first() {
                followed.last = first.time;
            }
            followed.gap |= followed.begun;
            followed.news.lost += lost;
            lines.insert(0, gap(followed, Some(lost)));
        }
        followed.begun = true;
        followed.last = lines.last().map_or(followed.last, |line| line.time);
        self.live.tell(lines);
    }

    /// Passes on the status of the site and of its cluster. Returns false if it is not the cluster that is watched.
    fn take_status(self: &Arc<Self>, followed: &mut Followed, status: &Status) -> bool {
        let cluster = status.cluster.to_string();
        if *self.known().cluster.get_or_insert_with(|| cluster.clone()) != cluster {
            let why = format!("not watched: it belongs to another cluster, {cluster}");
            self.live.news(followed.site.as_str(), SiteNews { why, ..SiteNews::default() });
            return false;
        }
        followed.news.standing = standing(&status.standing);
        followed.news.lease_left = status.lease_left.map(|left| left.micros() / 1000);
        followed.news.epoch = status.view.epoch.number();
        self.live.news(followed.site.as_str(), followed.news.clone());
        let members: Vec<SiteName> = status.view.members.iter().map(|member| member.site.clone()).collect();
        self.live.cluster_news(ClusterNews {
            cluster,
            epoch: status.view.epoch.number(),
            leader: status.leader.as_ref().map(ToString::to_string),
            members: members.iter().map(ToString::to_string).collect(),
        });
        self.look_after(members.into_iter());
        true
    }
}

/// Why a site is no longer followed, other than by the end of the connection.
enum FollowEnd {
    /// Another thread follows it, or it belongs to another cluster.
    Another,
    /// The site refuses to be watched.
    Refused(String),
}

/// Returns the line that says that lines are missing.
fn gap(followed: &Followed, count: Option<u64>) -> Written {
    let site = Whose::Name(followed.site.to_string());
    Written { count, ..Written::new(followed.last, TraceKind::Lost, site, "") }
}

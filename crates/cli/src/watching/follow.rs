//! Follows one site: what it tells is passed on; when it has gone, it is looked for again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use meshlock_cluster::names::{ClientLabel, SiteName};
use meshlock_lab::live::{ClusterNews, SiteNews};
use meshlock_sim::trace::{TraceKind, Whose, Written};
use meshlock_wire::clients::{RefusalKind, Status, Tag, ToClient, ToNode};

use super::lines::written;
use super::{Watching, unreached};
use crate::commands::standing;
use crate::place::Place;
use meshlock_client::{Connection, ConnectionError};

/// How often a site is asked how it is, and one that has gone whether it is back.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// What is known of the site that is followed.
struct Followed {
    site: SiteName,
    news: SiteNews,
    watch: Tag,
    asked: Tag,
    /// The time of its last line, in microseconds.
    last: f64,
    /// Whether what is known of its clients may be wrong.
    gap: bool,
    /// Whether it has said what its clients have and want already: of very many, only a part.
    begun: bool,
}

impl Watching {
    pub(super) fn connect(&self, place: &Place) -> anyhow::Result<Connection> {
        let label = format!("meshlock {}, process {}", self.wanted.command, std::process::id());
        Ok(place.connect(&label.parse::<ClientLabel>()?)?)
    }

    /// Starts a thread for the node at a place; not if its site is followed already.
    pub(super) fn follow(self: &Arc<Self>, place: Place, remote: Option<Connection>) {
        let site = remote.as_ref().map(|remote| remote.site().clone());
        if let Some(site) = &site
            && !self.known().followed.insert(site.clone())
        {
            return;
        }
        let watching = self.clone();
        std::thread::spawn(move || watching.keep_following(&place, site, remote));
    }

    /// Until the process ends, or the node turns out to be another one's affair.
    pub(super) fn keep_following(
        self: &Arc<Self>,
        place: &Place,
        mut site: Option<SiteName>,
        mut remote: Option<Connection>,
    ) {
        let mut again = false;
        loop {
            let connected = remote.take().map_or_else(|| self.connect(place), Ok);
            let heard = connected.and_then(|mut remote| {
                let name = remote.site().clone();
                if site.as_ref() != Some(&name) {
                    if !self.known().followed.insert(name.clone()) {
                        return Ok(Ending::Another);
                    }
                    site = Some(name.clone());
                    self.live.forget(&place.to_string());
                }
                self.hear_all(&mut remote, name, std::mem::replace(&mut again, true))
            });
            let name = site.as_ref().map_or_else(|| place.to_string(), ToString::to_string);
            match heard {
                Ok(Ending::Another) => return,
                Ok(Ending::Refused(why)) => {
                    let error = anyhow::Error::from(ConnectionError::Refused {
                        kind: RefusalKind::Other,
                        endpoint: place.endpoint.clone(),
                        why,
                    });
                    self.live.news(&name, unreached(place, &error));
                }
                Err(error) => self.live.news(&name, unreached(place, &error)),
            }
            // Nobody wakes it: it looks again after a while.
            std::thread::park_timeout(ASK_EVERY);
        }
    }

    /// Passes on what the site tells, until it has gone.
    fn hear_all(
        self: &Arc<Self>,
        remote: &mut Connection,
        site: SiteName,
        again: bool,
    ) -> anyhow::Result<Ending> {
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
                        return Ok(Ending::Another);
                    }
                }
                Some(ToClient::Refused { tag, why, .. })
                    if tag == followed.watch || tag == followed.asked =>
                {
                    return Ok(Ending::Refused(why));
                }
                Some(_) | None => {}
            }
        }
    }

    fn watch(&self, remote: &mut Connection, followed: &mut Followed) -> Result<(), ConnectionError> {
        if std::mem::take(&mut followed.gap) {
            // What is told from here on says anew what its clients have and want.
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

    /// How the site is, and the cluster as it sees it. Says whether it is the cluster that is watched.
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

/// How following a site ended, where it was not the connection that did.
enum Ending {
    /// It is followed elsewhere, or belongs to another cluster.
    Another,
    /// It does not let itself be watched.
    Refused(String),
}

/// The line that says that lines are missing.
fn gap(followed: &Followed, count: Option<u64>) -> Written {
    let site = Whose::Name(followed.site.to_string());
    Written { count, ..Written::new(followed.last, TraceKind::Lost, site, "") }
}

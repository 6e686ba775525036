//! Scenario scripts: one line tells the engine something, and says what it must ask for then.
//!
//! ```text
//! own p0 lanes=2 w=5
//! deliver p0 5a 6b 7a => start p0[5 7 | 6]
//! committed p0@5
//! ```
//!
//! A delivery is `<offset><aggregate>`, then maybe `/<route>`, `~<leader epoch>`, `:<bytes>`, `!` (cannot be
//! decoded). Aggregate `a` is in lane 0, `b` in lane 1 and so on; so are the parked queues `a2`, `a3`.
//! An open transaction is named by one of its offsets, a release by its queue; `old` behind it means
//! the oldest such transaction, of whatever generation.

use std::{collections::BTreeMap, fmt::Write as _};

use crate::{
    Batch, BatchOutcome, Commit, Doom, Due, Effect, Engine, Epoch, Failure, Generation,
    HandlerFault, Item, Kind, Lane, LaneState, LeaderEpoch, Limits, LogPoint, Mode, NextOffset,
    Offset, Ownership, ParkReason, PartitionId, Release, ReleaseOutcome, Seek, Standstill,
    TakeOverFault, Tally, Time, TransactionFault, WatermarkWrite, Written,
};

/// Runs a script and compares what the engine asked for; on a difference the observed script is
/// printed, ready to be judged and pasted.
#[track_caller]
pub(super) fn check(script: &str) {
    let mut told = Script::new();
    let mut wanted = String::new();
    let mut observed = String::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.starts_with('#') {
            continue;
        }
        let (command, effects) = line.split_once("=>").unwrap_or((line, ""));
        let (command, effects) = (command.trim(), effects.trim());
        told.tell(command);
        for (text, effects) in [(&mut wanted, effects), (&mut observed, &*told.effects())] {
            let arrow = if effects.is_empty() { "" } else { " => " };
            writeln!(text, "        {command}{arrow}{effects}").unwrap();
        }
        if wanted != observed {
            break;
        }
    }
    assert!(wanted == observed, "expected\n{wanted}\nobserved\n{observed}");
}

struct Script {
    engine: Engine<()>,
    now: Time,
    taking: Vec<(PartitionId, Generation)>,
    seeking: Vec<Seek>,
    confirming: Vec<(PartitionId, Generation)>,
    batches: Vec<Batch<()>>,
    looks: Vec<(PartitionId, Generation)>,
    releases: Vec<Release>,
    writes: Vec<WatermarkWrite>,
    commits: Vec<Vec<Commit>>,
    generations: BTreeMap<PartitionId, Generation>,
    seen: Vec<String>,
}

impl Script {
    fn new() -> Self {
        // Watermarks are written once in a script's life, unless it says otherwise.
        let limits = Limits {
            alone_max: 3,
            attempts_max: 3,
            conflict_delay_max: 10,
            events_at_first: 500,
            idle_check_interval: 1_000_000,
            outage_delay_max: 1_000,
            outage_delay_min: 100,
            release_events_max: 4,
            retry_delay_max: 1_000,
            retry_delay_min: 100,
            transactions_max: 2,
            watermark_interval: 1_000_000,
            ..Limits::default()
        };
        Self {
            engine: Engine::new(limits, 7),
            now: Time(1_000),
            taking: Vec::new(),
            seeking: Vec::new(),
            confirming: Vec::new(),
            batches: Vec::new(),
            looks: Vec::new(),
            releases: Vec::new(),
            writes: Vec::new(),
            commits: Vec::new(),
            generations: BTreeMap::new(),
            seen: Vec::new(),
        }
    }

    fn tell(&mut self, command: &str) {
        let mut words = command.split_whitespace();
        let verb = words.next().unwrap_or_default();
        let rest: Vec<&str> = words.collect();
        match verb {
            "limits" => rest.iter().for_each(|limit| self.limit(limit)),
            "assign" => self.engine.handle_assigned(&ids(&rest), self.now),
            "revoke" => self.engine.handle_revoked(&ids(&rest), self.now),
            "lost" => self.engine.handle_lost(&ids(&rest), self.now),
            "room" => self.engine.handle_permits(rest[0].parse().unwrap(), self.now),
            "shutdown" => self.engine.handle_shutdown(self.now),
            "wait" => self.wait(rest[0].parse().unwrap()),
            "acked" => self.acked(rest.is_empty()),
            "see" => self.see(id(rest[0])),
            "whole" => self.whole(),
            "own" => self.own(&rest),
            _ => self.tell_of(verb, &rest),
        }
        self.poll();
    }

    /// What is about one partition, or one offset of it.
    fn tell_of(&mut self, verb: &str, rest: &[&str]) {
        let (place, offset) = rest[0].split_once('@').unwrap_or((rest[0], ""));
        let id = id(place);
        let now = self.now;
        match verb {
            "taken" => self.taken(id, &rest[1..]),
            "sought" => {
                let seek = take(&mut self.seeking, |seek| seek.partition == id);
                let sought = rest.get(1).map_or(Ok(()), |_| Err("no leader".to_owned()));
                self.engine.handle_sought(id, seek.generation, sought, now);
            }
            "confirmed" => {
                let (_, generation) = take(&mut self.confirming, |(it, _)| *it == id);
                self.engine.handle_confirmed(id, generation, rest[1] == "yes", now);
            }
            "written" => {
                let write = take(&mut self.writes, |write| write.partition == id);
                let written = match rest.get(1) {
                    None => Written::Yes,
                    Some(&"fenced") => Written::Fenced,
                    Some(_) => Written::Outage("refused".into()),
                };
                self.engine.handle_watermark(&write, written, now);
            }
            "deliver" => {
                let (old, items) = match rest[1] {
                    "old" => (true, &rest[2..]),
                    _ => (false, &rest[1..]),
                };
                let generation = self.generations[&id];
                let generation = if old { Generation(generation.0 - 1) } else { generation };
                let items: Vec<Item<()>> = items.iter().map(|item| delivery(item)).collect();
                self.engine.handle_delivered(id, generation, items, now);
            }
            "position" => {
                let position = NextOffset(offset.parse().unwrap());
                self.engine.handle_position(id, self.generations[&id], position);
            }
            "refused" => self.refused(id),
            "gone" => self.engine.stop(id, Standstill::LogStartsAbove("out of range".into())),
            "due" => self.due(id, &rest[1..]),
            "released" => self.released(id, &rest[1..]),
            "unreadable" => {
                let generation = self.generations[&id];
                let before = Generation(generation.0 - 1);
                let of = if rest.get(1) == Some(&"old") { before } else { generation };
                self.engine.handle_offset_gone(id, of, "out of range", now);
            }
            "replaced" => {
                self.engine.handle_topic_changed(id, self.generations[&id], now);
            }
            "unread" => {
                let at = NextOffset(offset.parse().unwrap());
                self.engine.handle_unread(id, self.generations[&id], at, now);
            }
            "seen" => {
                let reason = rest.get(1).map(|why| Standstill::NoProgress((*why).to_owned()));
                self.engine.handle_observation(id, reason);
            }
            _ => self.outcome(verb, id, offset, rest),
        }
    }

    fn outcome(&mut self, verb: &str, id: PartitionId, offset: &str, rest: &[&str]) {
        let offset = Offset(offset.parse().unwrap());
        let has = |batch: &Batch<()>| {
            batch.partition == id && batch.items.iter().any(|item| item.offset == offset)
        };
        let mut found = self.batches.iter();
        let place = if rest.contains(&"old") { found.position(has) } else { found.rposition(has) };
        let batch = self.batches.remove(place.expect("a transaction with this offset is open"));
        let outcome = match verb {
            "committed" => {
                let applied = batch.items.len() as u64;
                BatchOutcome::Committed(Tally { applied, ..Tally::default() })
            }
            "failed" | "rejected" if rest.contains(&"unnamed") => {
                BatchOutcome::Failed(vec![Failure { index: None, ..failure(verb, 0) }])
            }
            "failed" | "rejected" | "crashed" => {
                let named = rest[1..].iter().filter_map(|word| word.split_once('@'));
                let at = |(_, at): (&str, &str)| {
                    let offset = Offset(at.parse().unwrap());
                    batch.items.iter().position(|item| item.offset == offset).unwrap()
                };
                BatchOutcome::Failed(named.map(|name| failure(verb, at(name))).collect())
            }
            "ignored" => BatchOutcome::Committed(Tally::default()),
            "woke" => BatchOutcome::Committed(Tally { applied: 1, woken: 1, ..Tally::default() }),
            "blocked" => BatchOutcome::Fault(TransactionFault::Blocked("lock time-out".into())),
            "conflict" => BatchOutcome::Fault(TransactionFault::Conflict("deadlock".into())),
            "locked" => BatchOutcome::Fault(locked(batch.items[0].kind.route)),
            "broken" => {
                BatchOutcome::Fault(TransactionFault::Broken("terminating connection".into()))
            }
            "outage" => BatchOutcome::Fault(TransactionFault::Outage("no route".into())),
            "unreached" => BatchOutcome::Fault(TransactionFault::Unreached("no session".into())),
            "unknown" => BatchOutcome::Fault(TransactionFault::Unknown("no answer".into())),
            "fenced" => BatchOutcome::Fault(TransactionFault::Fenced),
            "full" => BatchOutcome::Full("1000 parked aggregates".into()),
            "reused" => {
                let at = batch.items.iter().position(|item| item.offset == offset);
                BatchOutcome::Reused(at.unwrap())
            }
            other => panic!("{other} is no word of scripts"),
        };
        self.engine.handle_outcome(batch, outcome, self.now);
    }

    fn limit(&mut self, limit: &str) {
        let (name, value) = limit.split_once('=').unwrap();
        let value: u64 = value.parse().unwrap();
        let count = usize::try_from(value).unwrap();
        let limits = &mut self.engine.limits;
        match name {
            "batch" => limits.batch_events_max = count,
            "batch-bytes" => limits.batch_bytes_max = value,
            "bytes" => limits.partition_bytes_max = value,
            "events" => limits.partition_events_max = count,
            "first" => limits.events_at_first = count,
            "drain" => limits.drain_deadline = value,
            "due" => limits.due_max = count,
            "idle" => limits.idle_check_interval = value,
            "look" => limits.due_interval = value,
            "oldest-first" => limits.oldest_first = value == 1,
            "release" => limits.release_events_max = count,
            "transactions" => limits.transactions_max = count,
            "watermark" => limits.watermark_interval = value,
            other => panic!("{other} is no limit of scripts"),
        }
    }

    /// Takes a partition over without a word; Kafka knows its watermark then, unless `uncommitted`.
    fn own(&mut self, words: &[&str]) {
        let id = id(words[0]);
        self.engine.handle_assigned(&[id], self.now);
        self.poll();
        self.taken(id, &words[1..]);
        self.poll();
        let seek = take(&mut self.seeking, |seek| seek.partition == id);
        self.engine.handle_sought(id, seek.generation, Ok(()), self.now);
        if !words.contains(&"uncommitted") {
            self.engine.handle_timeout(self.now);
        }
        self.poll();
        while !self.commits.is_empty() {
            self.acked(true);
        }
        self.seen.clear();
    }

    /// `lanes=2 w=5 last=9,4 le=0 wle=0 record=4 re=0 resume=3 remapped=7 remap`, or `again`, or `stop`; `old`: of an
    /// earlier wish.
    fn taken(&mut self, id: PartitionId, words: &[&str]) {
        let (_, generation) = take(&mut self.taking, |(it, _)| *it == id);
        let word = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
        let number = |name: &str, other: i64| word(name).map_or(other, |n| n.parse().unwrap());
        let watermark = number("w=", 0);
        let leader_epoch = LeaderEpoch(i32::try_from(number("le=", 0)).unwrap());
        let known = i64::from(leader_epoch.0);
        let watermark_leader_epoch = LeaderEpoch(i32::try_from(number("wle=", known)).unwrap());
        let epoch = LeaderEpoch(i32::try_from(number("re=", 0)).unwrap());
        let record = word("record=").map_or(LogPoint::UNKNOWN, |next| LogPoint {
            next: NextOffset(next.parse().unwrap()),
            leader_epoch: epoch,
        });
        let lane = |last: i64| LaneState { last: Offset(last), leader_epoch };
        let even = || vec![lane(watermark - 1); usize::try_from(number("lanes=", 2)).unwrap()];
        let listed = |list: &str| list.split(',').map(|last| lane(last.parse().unwrap())).collect();
        let lanes = word("last=").map_or_else(even, listed);
        let ownership = Ownership {
            epoch: Epoch(1),
            lanes,
            watermark: NextOffset(watermark),
            watermark_leader_epoch,
            record,
            remapped_below: NextOffset(number("remapped=", 0)),
            remap_waits: words.contains(&"remap"),
            unclean: words.contains(&"unclean"),
            resume: NextOffset(number("resume=", watermark)),
            resume_leader_epoch: watermark_leader_epoch,
        };
        let taken = match words {
            ["again", ..] => Err(TakeOverFault::Again("refused".into())),
            ["held"] => Err(TakeOverFault::Wait(Standstill::Reused("held".into()))),
            ["wait", ..] => Err(TakeOverFault::Wait(Standstill::LogEndsBelow("short".into()))),
            ["twin"] => Err(TakeOverFault::Wait(Standstill::ForeignOwner("twin".into()))),
            ["stop", ..] => Err(TakeOverFault::Stop(Standstill::LaneRule("64 lanes".into()))),
            _ => Ok(ownership),
        };
        self.engine.handle_taken(id, generation, taken, self.now);
    }

    /// `a b2`: what the latest look brought; or `refused`. `lane=5` is a queue in that lane; `late`
    /// before them means the oldest look, of whatever generation.
    fn due(&mut self, id: PartitionId, words: &[&str]) {
        let late = words.first() == Some(&"late");
        let words = &words[usize::from(late)..];
        let mut looks = self.looks.iter();
        let of_it = |(it, _): &(PartitionId, Generation)| *it == id;
        let place = if late { looks.position(of_it) } else { looks.rposition(of_it) };
        let (_, generation) = self.looks.remove(place.expect("the engine looks"));
        let one = |word: &&str| match word.strip_prefix("lane=") {
            Some(lane) => Due { lane: Lane(lane.parse().unwrap()), aggregate: [0; 16] },
            None => Due { lane: lane(word), aggregate: aggregate(word) },
        };
        let due = match words {
            ["refused"] => Err("refused".to_owned()),
            _ => Ok(words.iter().map(one).collect()),
        };
        self.engine.handle_due(id, generation, due, self.now);
    }

    /// `a`: its queue is not due any more; `a more`; `a nothing`, `a aside`: nothing was run, and more is due; or `a` and
    /// a fault.
    fn released(&mut self, id: PartitionId, words: &[&str]) {
        let has = |it: &Release| it.partition == id && it.aggregate == aggregate(words[0]);
        let mut found = self.releases.iter();
        let place = if words.contains(&"old") { found.position(has) } else { found.rposition(has) };
        let release = self.releases.remove(place.expect("a release of this queue is open"));
        let released = match words.get(1) {
            None | Some(&"old") => ReleaseOutcome::Done { more: false, removed: 1 },
            Some(&"nothing") => ReleaseOutcome::Done { more: false, removed: 0 },
            Some(&"more") => ReleaseOutcome::Done { more: true, removed: 1 },
            Some(&"aside") => ReleaseOutcome::Done { more: true, removed: 0 },
            Some(&"blocked") => {
                ReleaseOutcome::Fault(TransactionFault::Blocked("lock time-out".into()))
            }
            Some(&"conflict") => {
                ReleaseOutcome::Fault(TransactionFault::Conflict("deadlock".into()))
            }
            Some(&"locked") => ReleaseOutcome::Fault(locked(0)),
            Some(&"broken") => {
                ReleaseOutcome::Fault(TransactionFault::Broken("terminating connection".into()))
            }
            Some(&"outage") => ReleaseOutcome::Fault(TransactionFault::Outage("no route".into())),
            Some(&"unreached") => {
                ReleaseOutcome::Fault(TransactionFault::Unreached("no session".into()))
            }
            Some(&"unknown") => {
                ReleaseOutcome::Fault(TransactionFault::Unknown("no answer".into()))
            }
            Some(&"fenced") => ReleaseOutcome::Fault(TransactionFault::Fenced),
            Some(other) => panic!("{other} is no end of a release"),
        };
        self.engine.handle_released(&release, released, self.now);
    }

    fn acked(&mut self, ok: bool) {
        let commits = self.commits.remove(0);
        let all: Vec<PartitionId> = commits.iter().map(|commit| commit.partition).collect();
        self.engine.handle_committed(&commits, if ok { &[] } else { &all });
    }

    /// Kafka has refused the commit of one partition, and taken the others.
    fn refused(&mut self, id: PartitionId) {
        let commits = self.commits.remove(0);
        self.engine.handle_committed(&commits, &[id]);
    }

    /// Moves the clock, from wake-up to wake-up. A wake-up that is not over then is a busy loop.
    fn wait(&mut self, millis: u64) {
        let end = self.now.after(millis);
        while let Some(next) = self.engine.next_timeout().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            self.engine.handle_timeout(self.now);
            self.poll();
            let next = self.engine.next_timeout();
            assert!(next.is_none_or(|next| next > self.now), "a busy loop at {next:?}");
        }
        self.now = end;
    }

    /// Whether each open transaction has all that waited in its partition, by its first offset.
    fn whole(&mut self) {
        let open = self.batches.iter().map(|batch| (batch.items[0].offset.0, batch.whole));
        self.seen.extend(open.map(|(first, whole)| format!("{first}:{whole}")));
    }

    fn see(&mut self, id: PartitionId) {
        let snapshots = self.engine.snapshots();
        let Some(it) = snapshots.iter().find(|snapshot| snapshot.partition == id) else {
            return self.seen.push("nothing".into());
        };
        let kafka = it.committed.map_or_else(|| "none".to_owned(), |next| next.0.to_string());
        self.seen.push(format!(
            "w={} kafka={kafka} position={} waiting={} open={} bytes={}",
            it.watermark.0, it.position.0, it.waiting, it.open, it.bytes
        ));
        if it.due > 0 {
            let last = self.seen.last_mut().unwrap();
            write!(last, " due={}", it.due).unwrap();
        }
    }

    fn poll(&mut self) {
        while let Some(effect) = self.engine.poll_effect() {
            self.seen.push(text(&effect));
            match effect {
                Effect::TakeOver(id, generation, _) => self.taking.push((id, generation)),
                Effect::Seek(seek) => {
                    self.generations.insert(seek.partition, seek.generation);
                    self.seeking.push(seek);
                }
                Effect::Confirm(id, generation) => self.confirming.push((id, generation)),
                Effect::FindDue(id, generation) => self.looks.push((id, generation)),
                Effect::Release(release) => self.releases.push(release),
                Effect::Start(batch) => self.batches.push(batch),
                Effect::WriteWatermark(write) => self.writes.push(write),
                Effect::Commit(commits) => self.commits.push(commits),
                _ => {}
            }
        }
    }

    fn effects(&mut self) -> String {
        std::mem::take(&mut self.seen).join(", ")
    }
}

/// The oldest that fits.
fn take<E>(list: &mut Vec<E>, fits: impl FnMut(&E) -> bool) -> E {
    let place = list.iter().position(fits).expect("the engine asked for this");
    list.remove(place)
}

fn failure(verb: &str, index: usize) -> Failure {
    let fault = match verb {
        "failed" => HandlerFault::Retry,
        "crashed" => HandlerFault::Crash,
        _ => HandlerFault::Reject,
    };
    Failure { index: Some(index), fault, error: "no such account".into() }
}

fn id(word: &str) -> PartitionId {
    PartitionId(word.trim_start_matches('p').parse().unwrap())
}

fn ids(words: &[&str]) -> Vec<PartitionId> {
    words.iter().map(|word| id(word)).collect()
}

fn locked(route: u32) -> TransactionFault {
    TransactionFault::Locked { route, error: "lock time-out".into() }
}

fn delivery(word: &str) -> Item<()> {
    let (word, suspect) = (word.trim_end_matches('?'), word.ends_with('?'));
    let (word, doomed) = (word.trim_end_matches('!'), word.ends_with('!'));
    let (word, bytes) = word.split_once(':').unwrap_or((word, "1"));
    let (word, leader_epoch) = word.split_once('~').unwrap_or((word, "0"));
    let (word, route) = word.split_once('/').unwrap_or((word, "0"));
    let digits = word.trim_end_matches(|c: char| c.is_ascii_lowercase());
    let letter = word.as_bytes()[digits.len()];
    let offset: i64 = digits.parse().unwrap();
    Item {
        offset: Offset(offset),
        leader_epoch: LeaderEpoch(leader_epoch.parse().unwrap()),
        lane: Lane(u16::from(letter - b'a')),
        id: u128::from(offset.unsigned_abs()).to_be_bytes(),
        fingerprint: [0; 16],
        aggregate: [letter; 16],
        kind: Kind { route: route.parse().unwrap(), whole_run: false, one_per_aggregate: false },
        bytes: bytes.parse().unwrap(),
        attempts: 0,
        doomed: doomed
            .then(|| Doom { reason: ParkReason::Undecodable, error: "not an event".into() }),
        bare: false,
        suspect,
        event: (),
    }
}

fn lane(word: &str) -> Lane {
    Lane(u16::from(word.as_bytes()[0] - b'a'))
}

/// `a` is the aggregate of deliveries; `a2` is another one in its lane.
fn aggregate(word: &str) -> [u8; 16] {
    let letter = word.as_bytes()[0];
    let mut aggregate = [letter; 16];
    aggregate[15] = word[1..].parse().unwrap_or(letter);
    aggregate
}

fn text(effect: &Effect<()>) -> String {
    match effect {
        Effect::Abort(id, _) => format!("abort p{}", id.0),
        Effect::Close => "close".into(),
        Effect::Commit(commits) => {
            let one = |c: &Commit| format!("p{}@{}{}", c.partition.0, c.next.0, le(c.leader_epoch));
            format!("commit {}", commits.iter().map(one).collect::<Vec<_>>().join(" "))
        }
        Effect::Confirm(id, _) => format!("confirm p{}", id.0),
        Effect::FindDue(id, _) => format!("look p{}", id.0),
        Effect::LetGo(ids) => {
            let ids: Vec<String> = ids.iter().map(|id| format!("p{}", id.0)).collect();
            format!("let go {}", ids.join(" "))
        }
        Effect::Pause(id) => format!("pause p{}", id.0),
        Effect::Release(it) => release(it),
        Effect::Report(id, None) => format!("p{} moves", id.0),
        Effect::Report(id, Some(reason)) => format!("p{} stands: {}", id.0, reason.name()),
        Effect::Resume(id) => format!("resume p{}", id.0),
        Effect::Seek(seek) => {
            format!("seek p{}@{}{}", seek.partition.0, seek.to.0, le(seek.leader_epoch))
        }
        Effect::Start(batch) => start(batch),
        Effect::TakeOver(id, _, None) => format!("take p{}", id.0),
        Effect::TakeOver(id, _, Some(held)) => {
            format!("take p{} above {}", id.0, held.watermark.0)
        }
        Effect::WriteWatermark(write) if write.old == write.new => {
            format!("check p{} {}", write.partition.0, write.new.0)
        }
        Effect::WriteWatermark(write) => {
            let (old, new) = (write.old.0, write.new.0);
            let (LogPoint { next, leader_epoch }, p) = (write.record, write.partition.0);
            let same = next.0 == new && leader_epoch == write.leader_epoch;
            let record = if same || next.0 < 0 {
                String::new()
            } else {
                format!(" record {}{}", next.0, le(leader_epoch))
            };
            format!("write p{p} {old}>{new}{}{record}", le(write.leader_epoch))
        }
    }
}

/// `release p0 a:4`, four events at most; `blame p0 a` when its head is not to be run.
fn release(release: &Release) -> String {
    let letter = char::from(release.aggregate[0]);
    let number = match release.aggregate[15] {
        last if last == release.aggregate[0] => String::new(),
        last => last.to_string(),
    };
    let queue = format!("p{} {letter}{number}", release.partition.0);
    match &release.blamed {
        Some(_) => format!("blame {queue}"),
        None if release.unproven => format!("unproven release {queue}:{}", release.events_max),
        None => format!("release {queue}:{}", release.events_max),
    }
}

/// Scripts run under leader epoch 0; others are said.
fn le(leader_epoch: LeaderEpoch) -> String {
    match leader_epoch.0 {
        0 => String::new(),
        other => format!("~{other}"),
    }
}

fn start(batch: &Batch<()>) -> String {
    let item = |item: &Item<()>| match &item.doomed {
        None => item.offset.0.to_string(),
        Some(doom) => {
            let bare = if item.bare { ":bare" } else { "" };
            format!("{}:{}{bare}", item.offset.0, doom.reason.as_str())
        }
    };
    let lane = |items: &[Item<()>]| items.iter().map(item).collect::<Vec<_>>().join(" ");
    let lanes: Vec<String> = batch.items.chunk_by(|a, b| a.lane == b.lane).map(lane).collect();
    let word = if batch.mode == Mode::Careful { "careful" } else { "start" };
    let marked = if batch.marked { "marked " } else { "" };
    let text = format!("{marked}{word} p{}[{}]", batch.partition.0, lanes.join(" | "));
    match batch.remapped_below.0 {
        0 => text,
        below => format!("{text} remapped below {below}"),
    }
}

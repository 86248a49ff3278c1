//! A network that is split: a process is cut off from the others together with the primary and one sentinel.

use crate::support::{Ledger, NAME, Place, Replicated, is_down, until};
use flowgate_fleet::{CutOff, Fleet};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd;
use std::process::{Command, Stdio, id};
use std::thread;

const QUOTA: &str = "500/s burst 100";
const SOME: usize = 50;

/// A network of its own, with a way to that of this process. It is removed when dropped.
struct Network {
    name: String,
    /// Of this process, and of the other network.
    hosts: [String; 2],
}

impl Network {
    /// Returns `None` if this process may not make one.
    fn new() -> Option<Self> {
        let name = format!("flowgate{}", id());
        // 62,500 networks of four addresses.
        let [high, low] = [id() / 250 % 250, id() % 250].map(|part| part + 1);
        let hosts = [1, 2].map(|host| format!("10.{high}.{low}.{host}"));
        let network = ip(&format!("netns add {name}")).then_some(Self { name, hosts })?;
        let Self { name, hosts } = &network;
        let [here, there] = hosts;
        let way = format!("fg{}", id());
        let is_made = ip(&format!(
            "link add {way} type veth peer name inside netns {name}"
        )) && ip(&format!("addr add {here}/30 dev {way}"))
            && ip(&format!("link set {way} up"))
            && ip(&format!("-n {name} addr add {there}/30 dev inside"))
            && ip(&format!("-n {name} link set inside up"))
            && ip(&format!("-n {name} link set lo up"));
        is_made.then_some(network)
    }

    fn places(&self) -> [Place; 2] {
        let [here, there] = self.hosts.clone();
        let place = |host, namespace| Place { host, namespace };
        [place(there, Some(self.name.clone())), place(here, None)]
    }

    /// Lets no message through, or all of them again.
    fn cut(&self, is_cut: bool) {
        let [here, there] = &self.hosts;
        let what = if is_cut { "add" } else { "del" };
        let name = &self.name;
        assert!(ip(&format!("route {what} blackhole {there}/32")));
        assert!(ip(&format!("-n {name} route {what} blackhole {here}/32")));
    }

    /// Returns what `make` makes in the other network. The threads that it starts stay there.
    fn inside<T: Send>(&self, make: impl FnOnce() -> T + Send) -> T {
        let file = File::open(format!("/run/netns/{}", self.name)).unwrap();
        thread::scope(|scope| {
            let inside = scope.spawn(move || {
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(file.as_fd(), kind).unwrap();
                make()
            });
            inside.join().unwrap()
        })
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // With it, its end of the way, and so the way.
        ip(&format!("netns del {}", self.name));
        let [_, there] = &self.hosts;
        ip(&format!("route del blackhole {there}/32"));
    }
}

fn ip(words: &str) -> bool {
    let status = Command::new("ip")
        .args(words.split(' '))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

#[test]
#[ignore = "needs redis-server and a network namespace: ./ci/test as root"]
fn c1_a_process_that_is_cut_off_with_the_old_primary_stops() {
    let Some(network) = Network::new() else {
        println!("no network namespace can be made: not run");
        return;
    };
    let store = Replicated::start_at(network.places(), true);
    let open = || {
        let sentinels: Vec<String> = store.sentinels.iter().map(|one| one.url()).collect();
        let fleet = Fleet::sentinel(sentinels, NAME).unwrap().nodes(3);
        fleet.open().unwrap()
    };
    let fleets = [network.inside(open), open(), open()];
    let (mut cut_ns, mut stopped_ns) = (0, 0);
    let ledger = Ledger::of(&fleets, QUOTA, CutOff::Deny, |ledger| {
        ledger.progress(SOME);
        network.cut(true);
        cut_ns = ledger.now_ns();
        store.promoted();
        let inside = || ledger.admissions().into_iter().filter(|one| one.node == 0);
        let outside = || ledger.admissions().into_iter().filter(|one| one.node != 0);
        until("the process goes on with the old primary", || {
            is_down(&fleets[0])
        });
        stopped_ns = inside().map(|one| one.answered_ns).max().unwrap_or(cut_ns);
        let (before, inside_before) = (outside().count(), inside().count());
        until("the others have no primary", || {
            outside().count() >= before + 4 * SOME
        });
        assert_eq!(
            inside().count(),
            inside_before,
            "the old primary admits again"
        );
        network.cut(false);
        until("the process does not come back", || {
            inside().count() > inside_before
        });
        ledger.progress(SOME);
    });
    println!(
        "a partition: the process with the old primary had its last admission {} ms after the cut",
        stopped_ns.saturating_sub(cut_ns) / 1_000_000
    );
    ledger.check("a partition", 1, |allowance| {
        allowance.flow([1, 1], cut_ns, stopped_ns.max(cut_ns))
    });
}

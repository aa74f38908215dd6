//! Plans on a system that is only told about.

use std::collections::BTreeSet;

use super::*;
use crate::cluster::Cut;
use crate::record::Side;

/// Far more than anything takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Three nodes that do as they are told. The next node leads when the leader is ill.
#[derive(Default)]
struct Fake {
    state: Mutex<FakeState>,
}

#[derive(Default)]
struct FakeState {
    told: Vec<String>,
    ill: BTreeSet<usize>,
    refuses_cuts: bool,
}

impl Fake {
    fn tell(&self, what: String) -> Result<(), String> {
        self.state.lock().expect("no panic").told.push(what);
        Ok(())
    }

    fn ill(&self, node: usize, ill: bool) {
        let mut state = self.state.lock().expect("no panic");
        if ill {
            state.ill.insert(node);
        } else {
            state.ill.remove(&node);
        }
    }

    fn told(&self) -> String {
        self.state.lock().expect("no panic").told.join(", ")
    }
}

impl System for Fake {
    fn side(&self) -> Side {
        Side::default()
    }

    fn names(&self) -> Vec<String> {
        ["n1", "n2", "n3"].map(str::to_owned).to_vec()
    }

    fn addresses(&self) -> Vec<String> {
        Vec::new()
    }

    fn leader(&self) -> Result<usize, String> {
        let state = self.state.lock().expect("no panic");
        (0..3).find(|node| !state.ill.contains(node)).ok_or_else(|| "all are ill".to_owned())
    }

    fn is_current(&self, node: usize) -> bool {
        !self.state.lock().expect("no panic").ill.contains(&node)
    }

    fn kill(&self, node: usize) -> Result<(), String> {
        self.ill(node, true);
        self.tell(format!("kill {node}"))
    }

    fn terminate(&self, node: usize) -> Result<(), String> {
        if !self.is_current(node) {
            return Err("it has ended".to_owned());
        }
        self.ill(node, true);
        self.tell(format!("terminate {node}"))
    }

    fn start_again(&self, node: usize) -> Result<(), String> {
        self.ill(node, false);
        self.tell(format!("start {node}"))
    }

    fn pause(&self, node: usize) -> Result<(), String> {
        self.ill(node, true);
        self.tell(format!("pause {node}"))
    }

    fn resume(&self, node: usize) -> Result<(), String> {
        self.ill(node, false);
        self.tell(format!("resume {node}"))
    }

    fn cut(&self, node: usize, cut: Cut) -> Result<(), String> {
        if self.state.lock().expect("no panic").refuses_cuts {
            return Err("no relays".to_owned());
        }
        self.tell(format!("cut {node} {cut:?}"))
    }

    fn heal(&self) -> Result<(), String> {
        self.tell("heal".to_owned())
    }

    fn slow_disk(&self, node: usize, delay: Duration) -> Result<(), String> {
        self.tell(format!("slow {node} {}", delay.as_millis()))
    }

    fn noise(&self, shares: &[f64]) -> Result<(), String> {
        self.tell(format!("noise {shares:?}"))
    }
}

fn whats(outcome: &Outcome) -> Vec<&str> {
    outcome.marks.iter().map(|mark| mark.what.as_str()).collect()
}

#[test]
fn a_plan_is_carried_out_in_time_and_marked() {
    let fake = Arc::new(Fake::default());
    let plan = Schedule::parse("20ms kill leader; 80ms restart; 120ms pause follower 50ms").expect("it is right");
    let (began, clients) = (Instant::now(), Recall::default());
    let outcome = plan.run(fake.clone(), began, clients.clone()).expect("it begins").finish(PATIENCE);
    assert_eq!(outcome.failures, [""; 0]);
    assert_eq!(fake.told(), "kill 0, start 0, pause 1, resume 1");
    assert_eq!(
        whats(&outcome),
        [
            "n1 (leader) killed",
            "n2 leads",
            "n1 started again",
            "n1 is current",
            "n2 held",
            "n2 goes on",
            "n2 is current"
        ]
    );
    let at = |place: usize| outcome.marks[place].at_ms;
    assert!(at(0) >= 20.0 && at(2) >= 80.0 && at(4) >= 120.0 && at(5) >= at(4) + 50.0, "{:?}", outcome.marks);
    assert_eq!(clients.count(), 2, "n1 and n2 are current again: their clients come back");
    assert!(at(6) <= began.elapsed().as_secs_f64() * 1000.0);
}

#[test]
fn a_node_that_was_told_to_stop_is_not_told_twice() {
    let fake = Arc::new(Fake::default());
    let plan = Schedule::parse("0 terminate leader; 10ms restart; 20ms restart n3").expect("it is right");
    let outcome = plan.run(fake.clone(), Instant::now(), Recall::default()).expect("it begins").finish(PATIENCE);
    assert_eq!(outcome.failures, [""; 0]);
    assert_eq!(fake.told(), "terminate 0, start 0, terminate 2, start 2");
    assert!(whats(&outcome).starts_with(&["n1 (leader) told to stop"]));
}

#[test]
fn what_is_for_a_while_is_undone_when_the_plan_is_broken_off() {
    let fake = Arc::new(Fake::default());
    let plan = "0 pause n2 1h; 0 cut n3 mute; 0 slow-disk n1 10ms; 0 noise 50%; 1h kill n1";
    assert!(Schedule::parse(plan).is_err(), "hours are no unit");
    let plan = Schedule::parse(&plan.replace("1h", "60m")).expect("it is right");
    let running = plan.run(fake.clone(), Instant::now(), Recall::default()).expect("it begins");
    let end = Instant::now() + PATIENCE;
    while !fake.told().ends_with("noise [0.5]") {
        assert!(Instant::now() < end, "{}", fake.told());
        thread::yield_now();
    }
    let outcome = running.finish(Duration::ZERO);
    assert_eq!(outcome.failures, ["the time was up before all of the plan was done"]);
    assert_eq!(fake.told(), "pause 1, cut 2 Mute, slow 0 10, noise [0.5], resume 1, heal, slow 0 0, noise []");
}

#[test]
fn what_cannot_be_done_is_told() {
    let fake = Arc::new(Fake::default());
    fake.state.lock().expect("no panic").refuses_cuts = true;
    let plan = Schedule::parse("0 resume; 1ms cut leader; 2ms slow-links n1 1ms").expect("it is right");
    let outcome = plan.run(fake.clone(), Instant::now(), Recall::default()).expect("it begins").finish(PATIENCE);
    assert_eq!(outcome.marks, []);
    let [it, cut, links] = &outcome.failures[..] else { panic!("{:?}", outcome.failures) };
    assert!(it.starts_with("resume it at 0.") && it.contains("name one"), "{it}");
    assert!(cut.starts_with("cut leader at 0.") && cut.ends_with("no relays"), "{cut}");
    assert!(links.contains("cannot delay messages"), "{links}");
    let plan = Schedule::parse("0 kill n9").expect("it is right");
    assert!(
        plan.run(fake, Instant::now(), Recall::default())
            .expect_err("there is none")
            .contains("choose one of n1, n2, n3")
    );
}

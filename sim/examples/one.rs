//! scratch
fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words[0] == "many" {
        let (from, count): (u64, u64) = (words[1].parse().unwrap(), words[2].parse().unwrap());
        let mut bad = 0;
        for seed in from..from + count {
            let o = sim::chaos::Options { seed, ..Default::default() };
            let out = sim::run::run(&o, false);
            for v in &out.violations { println!("seed {seed}: {}: {:.300}", v.property, v.text); }
            for u in &out.undecided { println!("seed {seed}: undecided {u:.100}"); }
            bad += u64::from(!out.violations.is_empty());
        }
        println!("{bad} bad of {count}");
        return;
    }
    let o = sim::chaos::Options::parse(&words.join(" ")).unwrap();
    let out = sim::run::run(&o, true);
    for l in &out.lines { println!("{l}"); }
    for v in &out.violations { println!("VIOLATION {}: {:.3000}", v.property, v.text); }
}

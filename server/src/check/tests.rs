//! What is told, without a folder.

use super::report::{Identity, Report, Severity, Verdict, bytes_text};

#[test]
fn the_worst_finding_is_the_verdict() {
    let identity = Some(Identity { node: "n1".into(), cluster: "c".into(), incarnation: "7".into() });
    let mut report = Report { identity, ..Report::default() };
    report.judge();
    assert_eq!(report.verdict, Verdict::Sound);
    assert_eq!(report.to_string(), "identity   node n1 of cluster c, incarnation 7\njournal    none\n\nsound\n");
    report.find(Severity::Note, "folder", "a note");
    report.find(Severity::UnsyncedEnd, "journal", "an end");
    report.judge();
    assert_eq!(report.verdict, Verdict::SoundUnsyncedEnd);
    report.find(Severity::Damage, "journal", "a hole").then("it is asked for").advise("wait");
    report.find(Severity::Damage, "store", "another");
    report.judge();
    let text = report.to_string();
    assert!(text.contains("\ndamage: a hole\n  next start: it is asked for\n  to do: wait\n"), "{text}");
    assert!(text.ends_with("\ndamaged: a hole (and 1 more)\n"), "{text}");
}

#[test]
fn bytes_are_told_in_fitting_units() {
    let told: Vec<String> = [0, 1023, 1024, 1_600_000, 5 << 40].map(bytes_text).to_vec();
    assert_eq!(told, ["0 bytes", "1023 bytes", "1.0 KiB", "1.5 MiB", "5.0 TiB"]);
}

use super::judge::{Change, Judge};
use super::*;

const WINDOW: Duration = measure::WINDOW;

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn said(figures: [u32; 3]) -> Pace {
    Pace { figures, ..Pace::default() }
}

/// Windows with the same figures until something changes, at most 500.
fn windows_until_change(judge: &mut Judge, now: &mut Time, own: [u32; 3], others: &[Pace]) -> Option<(u32, Change)> {
    (1..=500).find_map(|count| {
        *now = *now + WINDOW;
        judge.on_window(*now, own, [true; 3], others).map(|change| (count, change))
    })
}

#[test]
fn who_is_far_above_the_middle_for_a_while_is_slow() {
    let (quick, mut now) = ([300, 500, 400], Time(0));
    let mut never = |own, others: &[Pace]| windows_until_change(&mut Judge::default(), &mut now, own, others);
    assert_eq!(never(quick, &[said(quick), said(quick)]), None);
    assert_eq!(never([2_900, 500, 400], &[said(quick), said(quick)]), None, "nobody minds so little");
    assert_eq!(never([9_000, 500, 400], &[said([4_000, 500, 400]), said([3_500, 500, 400])]), None, "all are slow");
    assert_eq!(never([9_000, 500, 400], &[said(quick), said([9_500, 500, 400])]), None, "it is the middle one");
    assert_eq!(never([9_000, 500, 400], &[said([0, 500, 400])]), None, "nobody says how long a sync takes elsewhere");
    assert_eq!(never([9_000, 500, 400], &[]), None);
    for (own, part) in
        [([9_000, 500, 400], Part::Disk), ([300, 30_000, 400], Part::Processor), ([300, 500, 50_000], Part::Link)]
    {
        assert_eq!(never(own, &[said(quick), said([9_500, 31_000, 51_000])]), None);
        let windows = if part == Part::Link { 6 } else { 3 };
        assert_eq!(never(own, &[said(quick), said(quick)]), Some((windows, Change::Slow(part))));
        assert_eq!(never(own, &[said(quick)]), Some((windows, Change::Slow(part))), "of two the slower one");
    }
    let all_slow = Pace { slow: Some(Part::Disk), ..said(quick) };
    assert_eq!(never([9_000, 500, 400], &[all_slow, all_slow]), None, "somebody has to be there who is not");
}

#[test]
fn a_stall_is_none_and_windows_that_show_nothing_do_not_count() {
    let others = [said([300, 500, 400]); 2];
    let mut judge = Judge::default();
    for window in 0..100 {
        let figure = if window % 3 == 0 { 300 } else { 900_000 };
        assert_eq!(judge.on_window(Time(0), [figure, 500, 400], [true; 3], &others), None);
    }
    let mut judge = Judge::default();
    let mut shown = 0;
    for window in 0..100 {
        let is_shown = window % 10 == 0;
        shown += u32::from(is_shown);
        if judge.on_window(Time(0), [9_000, 500, 400], [is_shown, true, true], &others).is_some() {
            break;
        }
    }
    assert_eq!(shown, 3);
    // Slow by its disk, and nothing is written: nobody knows better.
    for _ in 0..1000 {
        assert_eq!(judge.on_window(Time(0), [300, 500, 400], [false, true, true], &others), None);
    }
    assert_eq!(judge.slow(), Some(Part::Disk));
}

#[test]
fn each_relapse_takes_longer_to_be_forgiven() {
    let (slow, well, others) = ([9_000, 500, 400], [300, 500, 400], [said([300, 500, 400]); 2]);
    let (mut judge, mut now) = (Judge::default(), Time(0));
    for patience in [10, 20, 40, 80, 160, 160] {
        assert_eq!(windows_until_change(&mut judge, &mut now, slow, &others), Some((3, Change::Slow(Part::Disk))));
        // In between is neither: less than what makes a node slow, and more than what makes it well.
        assert_eq!(windows_until_change(&mut judge, &mut now, [2_500, 500, 400], &others), None);
        assert_eq!(
            windows_until_change(&mut judge, &mut now, well, &others),
            Some((patience, Change::Well(Part::Disk)))
        );
    }
    now = now + ms(61_000);
    assert_eq!(windows_until_change(&mut judge, &mut now, slow, &others), Some((3, Change::Slow(Part::Disk))));
    assert_eq!(windows_until_change(&mut judge, &mut now, well, &others), Some((10, Change::Well(Part::Disk))));
}

/// What a window of these three parts has shown.
fn window(fill: impl FnOnce(&mut Measure)) -> [Option<Duration>; 3] {
    let mut measure = Measure::default();
    assert_eq!(measure.close(Time(0), 2), None);
    fill(&mut measure);
    assert_eq!(measure.close(Time(0) + WINDOW / 2, 2), None);
    measure.close(Time(0) + WINDOW, 2).expect("it is over")
}

#[test]
fn syncs_are_told_by_their_median_and_a_disk_that_stands_still_by_how_long() {
    assert_eq!(window(|_| ())[0], None);
    let shown = window(|measure| [1, 900, 2, 1, 3].map(ms).into_iter().for_each(|took| measure.on_synced(took)));
    assert_eq!(shown[0], Some(ms(2)));
    let mut measure = Measure::default();
    let mut now = Time(0);
    measure.close(now, 2);
    measure.on_sealed(1, now);
    measure.on_sealed(2, now + ms(100));
    measure.on_persisted(1, now + ms(200));
    let mut disk_after = |measure: &mut Measure| {
        now = now + WINDOW;
        measure.close(now, 2).expect("it is over")[0]
    };
    assert_eq!(disk_after(&mut measure), None);
    assert_eq!(disk_after(&mut measure), Some(ms(800)), "since the first was taken");
    measure.on_persisted(2, Time(0) + ms(1100));
    assert_eq!(disk_after(&mut measure), None);
    assert_eq!(disk_after(&mut measure), None, "nothing waits");
}

#[test]
fn a_loop_that_stands_still_often_is_late() {
    let on_time = window(|measure| (0..50).for_each(|_| measure.on_tick(Duration::ZERO, Time(0))));
    assert_eq!(on_time[1], Some(Duration::ZERO));
    // Throttled: twenty milliseconds in each hundred.
    let throttled = window(|measure| {
        (0..10).for_each(|tick| measure.on_tick(ms(if tick % 2 == 0 { 80 } else { 0 }), Time(0) + ms(50 * tick)))
    });
    assert_eq!(throttled[1], Some(ms(32)));
}

#[test]
fn links_are_told_by_the_way_to_the_nearest_majority() {
    let [near, far] = [NodeId(1), NodeId(2)];
    let shown = window(|measure| {
        for number in 1..=9 {
            let left = Time(0) + ms(10 * number);
            measure.on_ping(number, left);
            measure.on_answer(near, number, ms(4), left + ms(5));
            measure.on_answer(far, number, ms(40), left + ms(70 + number));
        }
        measure.on_answer(near, 77, ms(1), Time(0) + ms(400));
    });
    assert_eq!(shown[2], Some(ms(1)));
    let mut measure = Measure::default();
    measure.close(Time(0), 4);
    measure.on_ping(1, Time(0));
    measure.on_answer(near, 1, ms(1), Time(0) + ms(2));
    assert_eq!(measure.close(Time(0) + WINDOW, 4).expect("it is over")[2], None, "of five nodes two others are needed");
}

#[test]
fn a_queue_that_most_pings_wait_in_is_no_slow_link() {
    let shown = |slow: u64| {
        window(|measure| {
            for number in 1..=10 {
                let left = Time(0) + ms(20 * number);
                let way = if number % 10 < slow { ms(18) } else { ms(1) };
                measure.on_ping(number, left);
                [1, 2].map(NodeId).into_iter().for_each(|peer| measure.on_answer(peer, number, ms(0), left + way));
            }
        })[2]
    };
    assert_eq!(shown(7), Some(ms(1)));
    assert_eq!(shown(8), Some(ms(18)), "four of five");
}

#[test]
fn time_at_work_is_neither_late_nor_on_the_way() {
    let at = |milliseconds| Time(0) + ms(milliseconds);
    // At work for 300 ms, of which the loop had the processor for 250.
    let worked = |measure: &mut Measure| measure.on_worked(at(100), at(400), ms(250));
    let shown = window(|measure| {
        worked(measure);
        measure.on_tick(ms(290), at(400));
    });
    assert_eq!(shown[1], Some(ms(40).mul_f64(0.04)), "it was late by 40 ms, once");
    // Times of work before a tick was due do not count for it.
    let shown = window(|measure| {
        measure.on_worked(at(0), at(100), ms(100));
        measure.on_tick(ms(200), at(300));
    });
    assert_eq!(shown[1], Some(ms(200).mul_f64(0.2)));
    // A ping left at 90 and came back at once; its answer was taken after the work. Another one left after it.
    let shown = window(|measure| {
        measure.on_ping(1, at(90));
        worked(measure);
        measure.on_ping(2, at(410));
        for peer in [NodeId(1), NodeId(2)] {
            measure.on_answer(peer, 1, ms(20), at(400));
        }
        assert_eq!(measure.worked_until(at(400)), ms(250), "what is taken now may have waited");
        assert_eq!(measure.worked_until(at(410)), Duration::ZERO, "it has had a rest");
        measure.on_worked(at(403), at(420), ms(17));
        assert_eq!(measure.worked_until(at(421)), ms(267), "nearly without a rest");
        measure.on_worked(at(420), at(440), ms(9));
        assert_eq!(measure.worked_until(at(440)), Duration::ZERO, "it rested most of that time");
    });
    assert_eq!(shown[2], Some(ms(40)), "it was not at work from 110 on but for 250 ms");
    // A way that is long although the loop had time is long.
    let shown = window(|measure| {
        worked(measure);
        measure.on_ping(1, at(410));
        measure.on_answer(NodeId(1), 1, ms(10), at(480));
    });
    assert_eq!(shown[2], Some(ms(60)));
}

#[test]
fn an_answer_may_leave_a_turn_later_than_it_was_written() {
    let at = |milliseconds| Time(0) + ms(milliseconds);
    let mut measure = Measure::default();
    assert_eq!(measure.longest_work(at(0)), Duration::ZERO);
    measure.on_worked(at(0), at(90), ms(80));
    measure.on_worked(at(100), at(125), ms(20));
    measure.on_worked(at(130), at(137), ms(7));
    assert_eq!(measure.longest_work(at(140)), ms(80));
    assert_eq!(measure.longest_work(at(310)), ms(20), "that was long ago");
    assert_eq!(measure.longest_work(at(400)), Duration::ZERO);
}

#[test]
fn what_is_said_comes_back() {
    for slow in [None, Some(Part::Disk), Some(Part::Processor), Some(Part::Link)] {
        let pace = Pace { figures: [1, 300_000, u32::MAX], slow, heard_ago: 25_000 };
        let mut bytes = Vec::new();
        pace.encode(&mut Writer::new(&mut bytes));
        assert_eq!(Pace::decode(&mut Reader::from_slice(&bytes)), Ok(pace));
    }
    assert_eq!(Pace::decode(&mut Reader::from_slice(&[0, 0, 0, 4, 0])), Err(Malformed));
}
